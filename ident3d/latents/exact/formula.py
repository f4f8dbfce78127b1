"""Formulas of a graph's means: numbers, pi, latents, + - * / and parentheses, sin and cos, and nothing else.

They are read into Python's syntax tree, checked against a short list of what is allowed and evaluated node by node; the
text is never executed. Arrays go through arithmetic that every machine agrees on, intervals show what a mean can reach.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from ident3d.errors import UserError, unknown
from ident3d.latents.exact.arithmetic import Float64, sin_cos

LONGEST: Final = 300  # characters
FARTHEST_ANGLE: Final = 1e5
FUNCTIONS: Final = ("sin", "cos")
OPERATIONS: Final[dict[type[ast.operator], Callable[[Float64, Float64], Float64]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


@dataclass(frozen=True)
class Formula:
    """A mean as the user wrote it."""

    text: str

    @property
    def names(self) -> frozenset[str]:
        """The latents that it speaks of."""
        calls = {id(node.func) for node in ast.walk(_tree(self.text)) if isinstance(node, ast.Call)}
        found = [node for node in ast.walk(_tree(self.text)) if isinstance(node, ast.Name) and id(node) not in calls]
        return frozenset(node.id for node in found) - {"pi"}

    def value(self, latents: Mapping[str, Float64]) -> Float64:
        return _value(_tree(self.text), latents)

    def bounds(self, ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
        """An interval that the value cannot leave while each latent stays in its range."""
        return _bounds(_tree(self.text), ranges)


@lru_cache
def _tree(text: str) -> ast.expr:
    # The length is bounded before parsing, because deep nesting exhausts the parser itself.
    if len(text) > LONGEST:
        raise UserError(f"A formula has at most {LONGEST} characters, not {len(text)}.")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UserError(f"The formula {text!r} cannot be read.") from None
    _check(tree, text)
    return tree


# This is the only gate: what is not listed here is refused, so that no name or call of Python's gets further.
def _check(node: ast.expr, text: str) -> None:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e6:
            pass
        case ast.Name():
            pass
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            _check(operand, text)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op, left=left, right=right):
            _check(left, text)
            _check(right, text)
            if isinstance(op, ast.Div) and (_has_latents(right) or _bounds(right, {})[0] == 0):
                raise UserError(f"In the formula {text!r} something is divided by 0 or by a latent, which may be 0.")
        case ast.Call(func=ast.Name(id=function), args=[argument], keywords=[]):
            if function not in FUNCTIONS:
                raise unknown("function", function, FUNCTIONS)
            _check(argument, text)
        case _:
            raise UserError(f"The formula {text!r} may use numbers, pi, latents, + - * / ( ), sin and cos only.")


def _has_latents(node: ast.expr) -> bool:
    names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return bool(names - {"pi", *FUNCTIONS})


def _value(node: ast.expr, latents: Mapping[str, Float64]) -> Float64:
    match node:
        case ast.Constant(value=int() | float() as value):
            return np.asarray(value, np.float64)
        case ast.Name(id="pi"):
            return np.asarray(math.pi)
        case ast.Name(id=name):
            return latents[name]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _value(operand, latents)
            return -inner if isinstance(op, ast.USub) else inner
        case ast.BinOp(op=op, left=left, right=right):
            return OPERATIONS[type(op)](_value(left, latents), _value(right, latents))
        case ast.Call(func=ast.Name(id=function), args=[argument]):
            return sin_cos(_value(argument, latents))[FUNCTIONS.index(function)]
    raise AssertionError(ast.dump(node))


def _bounds(node: ast.expr, ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value), float(value)
        case ast.Name(id="pi"):
            return math.pi, math.pi
        case ast.Name(id=name):
            return ranges[name]
        case ast.UnaryOp(op=op, operand=operand):
            low, high = _bounds(operand, ranges)
            return (-high, -low) if isinstance(op, ast.USub) else (low, high)
        case ast.BinOp(op=op, left=left, right=right):
            (a, b), (c, d) = _bounds(left, ranges), _bounds(right, ranges)
            if isinstance(op, ast.Add):
                return a + c, b + d
            if isinstance(op, ast.Sub):
                return a - d, b - c
            if isinstance(op, ast.Div):
                # `_check` has made sure that the divisor is a number other than 0.
                c, d = 1 / d, 1 / c
            corners = [a * c, a * d, b * c, b * d]
            return min(corners), max(corners)
        case ast.Call(func=ast.Name(id=function), args=[argument]):
            low, high = _bounds(argument, ranges)
            if not max(-low, high) <= FARTHEST_ANGLE:
                raise UserError(f"The {function} of an angle beyond {FARTHEST_ANGLE:g} is refused.")
            # Without knowing where the angle turns, [-1, 1] is what always holds.
            wave = math.sin if function == "sin" else math.cos
            return (wave(low), wave(low)) if low == high else (-1.0, 1.0)
    raise AssertionError(ast.dump(node))
