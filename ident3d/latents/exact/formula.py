"""Formulas of a graph: numbers, pi, latents, + - * / **, parentheses, a few functions, and nothing else.

Of a categorical factor they ask whether it has a value, as in shape == "cube", which is 1 or 0.

They are read into Python's syntax tree, checked against a short list of what is allowed and evaluated node by node; the
text is never executed. Arrays go through arithmetic that every machine agrees on; intervals show what a value can be.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Final

import numpy as np

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.arithmetic import Float64, sin_cos
from ident3d.latents.exact.powers import exponential, power, tanh

LONGEST: Final = 300  # characters
FARTHEST_ANGLE: Final = 1e5
LARGEST_EXPONENT: Final = 100
# Of any intermediate result, so that nothing overflows.
LARGEST: Final = 1e300
Bounds = tuple[float, float]


def _smaller(a: Float64, b: Float64) -> Float64:
    # Not np.minimum: of 0 and -0 it may return either, and the bits must agree.
    return np.where(b < a, b, a)


def _larger(a: Float64, b: Float64) -> Float64:
    return np.where(b > a, b, a)


FUNCTIONS: Final[dict[str, Callable[[Float64], Float64]]] = {
    "sin": lambda x: sin_cos(x)[0], "cos": lambda x: sin_cos(x)[1], "exp": exponential, "tanh": tanh, "abs": np.abs,
}  # fmt: skip
CHOICES: Final = {"min": _smaller, "max": _larger}
OPERATIONS: Final[dict[type[ast.operator], Callable[[Float64, Float64], Float64]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
ALLOWED: Final = f"numbers, pi, latents, + - * / ** ( ), {', '.join([*FUNCTIONS, *CHOICES])}"


@dataclass(frozen=True)
class Formula:
    """A formula as the user wrote it."""

    text: str

    @property
    def names(self) -> frozenset[str]:
        """The latents that it speaks of."""
        return self.words - {"pi"}

    @property
    def words(self) -> frozenset[str]:
        """The latents that it speaks of, and pi."""
        calls = {id(node.func) for node in ast.walk(_tree(self.text)) if isinstance(node, ast.Call)}
        found = [node for node in ast.walk(_tree(self.text)) if isinstance(node, ast.Name) and id(node) not in calls]
        return frozenset(node.id for node in found)

    @property
    def choices(self) -> frozenset[tuple[str, str]]:
        """The categorical factors that it asks for a value, each with the value."""
        nodes = ast.walk(_tree(self.text))
        return frozenset(_choice(node) for node in nodes if isinstance(node, ast.Compare))

    @property
    def numbers(self) -> frozenset[str]:
        """The latents that it takes for numbers."""
        nodes = list(ast.walk(_tree(self.text)))
        asked = {id(node.left) for node in nodes if isinstance(node, ast.Compare)}
        return self.names & {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in asked}

    @property
    def keys(self) -> frozenset[str]:
        """What `value` looks up: latents, and the keys of choices."""
        return self.numbers | {choice_key(*choice) for choice in self.choices}

    def value(self, latents: Mapping[str, Float64]) -> Float64:
        return _value(_tree(self.text), latents)

    def bounds(self, ranges: Mapping[str, Bounds]) -> Bounds:
        """Return an interval that the value cannot leave while each latent stays in its range."""
        try:
            return _bounds(_tree(self.text), ranges)
        except UserError as error:
            raise UserError(f"In the formula {self.text!r} {error}") from None


def choice_key(name: str, value: str) -> str:
    """Return the name by which a formula looks up whether a categorical factor has a value: 1 or 0."""
    return f"{name} == {value}"


def value_name(value: float | str) -> str:
    """Return a value of a categorical factor as graphs write it."""
    return value if isinstance(value, str) else f"{value:.12g}"


def _choice(node: ast.Compare) -> tuple[str, str]:
    match node:
        case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant(value=str() | int() | float() as value)]):
            return name, value_name(value)
    raise AssertionError(ast.dump(node))


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
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow() as op, left=left, right=right):
            _check(left, text)
            _check(right, text)
            if isinstance(op, ast.Pow) and any(isinstance(part, ast.Name) for part in ast.walk(right)):
                raise UserError(f"In the formula {text!r} an exponent is no plain number; exp takes latents.")
        case ast.Compare(
            left=ast.Name(), ops=[ast.Eq()], comparators=[ast.Constant(value=str() | int() | float() as value)]
        ) if not isinstance(value, bool):
            pass
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]):
            check_known("function", function, [*FUNCTIONS, *CHOICES])
            if len(arguments) < 2 if function in CHOICES else len(arguments) != 1:
                takes = "two numbers or more" if function in CHOICES else "one number"
                raise UserError(f"In the formula {text!r} {function} takes {takes}, not {len(arguments)}.")
            for argument in arguments:
                _check(argument, text)
        case _:
            raise UserError(f"The formula {text!r} may use {ALLOWED} only.")


def _exponent(node: ast.expr) -> float:
    exponent = _bounds(node, {})[0]
    if not abs(exponent) <= LARGEST_EXPONENT:
        raise UserError(f"an exponent is {exponent:g}; it may be from -{LARGEST_EXPONENT} to {LARGEST_EXPONENT}.")
    return exponent


def _value(node: ast.expr, latents: Mapping[str, Float64]) -> Float64:
    match node:
        case ast.Constant(value=int() | float() as value):
            return np.asarray(value, np.float64)
        case ast.Name(id="pi"):
            return np.asarray(math.pi)
        case ast.Name(id=name):
            return latents[name]
        case ast.Compare():
            return latents[choice_key(*_choice(node))]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _value(operand, latents)
            return -inner if isinstance(op, ast.USub) else inner
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            return power(_value(left, latents), _exponent(right))
        case ast.BinOp(op=op, left=left, right=right):
            return OPERATIONS[type(op)](_value(left, latents), _value(right, latents))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            values = [_value(argument, latents) for argument in arguments]
            return reduce(CHOICES[function], values) if function in CHOICES else FUNCTIONS[function](values[0])
    raise AssertionError(ast.dump(node))


def _bounds(node: ast.expr, ranges: Mapping[str, Bounds]) -> Bounds:
    low, high = _interval(node, ranges)
    # A negation, so that NaN is refused too.
    if not max(-low, high) <= LARGEST:
        raise UserError(f"a value may go beyond {LARGEST:g}.")
    return low, high


def _interval(node: ast.expr, ranges: Mapping[str, Bounds]) -> Bounds:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value), float(value)
        case ast.Name(id="pi"):
            return math.pi, math.pi
        case ast.Name(id=name):
            return ranges[name]
        case ast.Compare():
            return 0.0, 1.0
        case ast.UnaryOp(op=op, operand=operand):
            low, high = _bounds(operand, ranges)
            return (-high, -low) if isinstance(op, ast.USub) else (low, high)
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            return _power_interval(_bounds(left, ranges), _exponent(right))
        case ast.BinOp(op=op, left=left, right=right):
            (a, b), (c, d) = _bounds(left, ranges), _bounds(right, ranges)
            if isinstance(op, ast.Div) and c <= 0 <= d:
                raise UserError(f"something is divided by what lies between {c:g} and {d:g}, so perhaps by 0.")
            if isinstance(op, ast.Sub):
                return a - d, b - c
            # Each operation is monotone in both numbers, with rounding too, so that the corners bound it. A number by
            # itself is a square, which is never below 0.
            if isinstance(op, ast.Mult) and ast.dump(left) == ast.dump(right):
                return (0.0 if a <= 0 <= b else min(a * a, b * b)), max(a * a, b * b)
            operate = {ast.Add: operator.add, ast.Mult: operator.mul, ast.Div: operator.truediv}[type(op)]
            corners = [float(operate(x, y)) for x in (a, b) for y in (c, d)]
            return min(corners), max(corners)
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _function_interval(function, [_bounds(argument, ranges) for argument in arguments])
    raise AssertionError(ast.dump(node))


def _function_interval(function: str, arguments: list[Bounds]) -> Bounds:
    low, high = arguments[0]
    if function in CHOICES:
        choose = min if function == "min" else max
        return choose(a for a, _ in arguments), choose(b for _, b in arguments)
    if function == "abs":
        return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    if function == "exp" and high > 690:
        raise UserError(f"the exp of {high:g} may be asked for; 690 is the most.")
    if function in ("exp", "tanh"):
        return float(FUNCTIONS[function](np.asarray(low))), float(FUNCTIONS[function](np.asarray(high)))
    if not max(-low, high) <= FARTHEST_ANGLE:
        raise UserError(f"the {function} of an angle beyond {FARTHEST_ANGLE:g} may be asked for.")
    # Without knowing where the angle turns, [-1, 1] is what always holds.
    return (float(FUNCTIONS[function](np.asarray(low))),) * 2 if low == high else (-1.0, 1.0)


def _power_interval(base: Bounds, exponent: float) -> Bounds:
    low, high = base
    if low < 0 and exponent != round(exponent):
        raise UserError(f"a number that may be {low:g} is raised to {exponent:g}; below 0 exponents are whole.")
    if exponent < 0 and low <= 0 <= high:
        raise UserError(f"what lies between {low:g} and {high:g}, so perhaps 0, is raised to {exponent:g}.")
    ends = [_end(end, exponent) for end in base]
    # An even power turns at 0.
    turns = low < 0 < high and exponent > 0 and exponent % 2 == 0
    return (0.0 if turns else min(ends)), max(ends)


def _end(base: float, exponent: float) -> float:
    # What overflows is refused by `_bounds`, and not computed.
    if base and exponent * math.log(abs(base)) > 690:
        return math.inf
    return float(power(base, exponent))
