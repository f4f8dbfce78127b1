"""An intervention that draws a latent anew: normal(mean, sd), laplace(mean, sd) or uniform(low, high), as a text."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ident3d.errors import UserError
from ident3d.latents.exact.formula import LONGEST, Formula
from ident3d.latents.exact.mechanism import NOISES, Component, Node, by_class, read_range
from ident3d.latents.exact.names import NAMES

DISTRIBUTIONS: Final = (*NOISES, "uniform")


def intervention(name: str, text: str, before: Node, names: Sequence[str] = NAMES) -> Node:
    """Return the latent as normal(mean, sd), laplace(mean, sd) or uniform(low, high) draws it from now on."""
    if before.values:
        raise UserError(f"{name} is categorical: it is set to one of its values, {', '.join(before.values)}.")
    try:
        # Longer texts could exhaust the parser.
        tree = ast.parse(text.strip() if len(text) <= LONGEST else "", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        tree = None
    match tree:
        case ast.Call(func=ast.Name(id=kind), args=[first, second], keywords=[]) if kind in DISTRIBUTIONS:
            given = [ast.unparse(first), ast.unparse(second)]
        case _:
            raise UserError(
                f"{name} is set to a number from -1 to 1, or drawn from {', '.join(DISTRIBUTIONS)} with two numbers as "
                f"in '{name} ~ normal(0.2, 0.3)'; {text!r} is neither."
            )
    if kind == "uniform":
        ends = [Formula(number) for number in given]
        low, high = read_range(name, [end.bounds({})[0] if not end.names else end.text for end in ends])
        return replace(before.unset, low=low, high=high)
    mean, sd = (
        by_class(f"{what} of {name}", number, (), names) for what, number in zip(("mean", "sd"), given, strict=True)
    )
    whole = (-1.0, 1.0) if before.periodic else (before.low, before.high)
    return replace(before.unset, components=(Component(mean, sd, kind),), low=whole[0], high=whole[1])


def is_drawn(value: float | str) -> bool:
    """Return whether a value says what to draw from, such as normal(0.2, 0.3)."""
    return isinstance(value, str) and value.partition("(")[0].strip() in DISTRIBUTIONS and "(" in value
