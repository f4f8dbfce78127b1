"""Factors declared from a table of latents: ranges, and lists of values, as the table has them."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError, check_known
from ident3d.latents.factor import TOLERANCE, Factor
from ident3d.latents.factors import Factors

# Of so few different values, each of which occurs twice on average, a column is taken for a discrete one.
FEW_VALUES: Final = 64


def declare(
    latents: ArrayLike,
    names: Sequence[str] | None = None,
    kinds: Sequence[str] | Mapping[str, str] | None = None,
    classes: Sequence[str] = (),
) -> Factors:
    """Return factors for a table of latents (n, d): each with the range, and the values if they are few, of its column.

    At most 64 different values that occur twice on average are few. A periodic factor goes from 0 to 2π, or from -π to
    π if it has negative values; more than one turn is refused, and another range is declared by a `Factor`.
    """
    table = np.asarray(latents, np.float64)
    if not len(table):
        raise UserError("There are no rows of latents.")
    names = [f"z{k}" for k in range(table.shape[1])] if names is None else list(names)
    if len(names) != table.shape[1]:
        raise UserError(f"There are {table.shape[1]} columns of latents and {len(names)} names.")
    if kinds is None or isinstance(kinds, Mapping):
        given = dict(kinds or {})
    elif len(kinds) != len(names):
        raise UserError(f"There are {len(names)} latents and {len(kinds)} kinds.")
    else:
        given = dict(zip(names, kinds, strict=True))
    for name in given:
        check_known("latent", name, names)
    found = []
    for name, column in zip(names, table.T, strict=True):
        kind, values = given.get(name, "box"), tuple(np.unique(column).tolist())
        few = len(values) <= FEW_VALUES and 2 * len(values) <= len(column)
        turn = (-math.pi, math.pi) if values[0] < 0 else (0.0, 2 * math.pi)
        if kind == "categorical":
            found.append(Factor(name, kind, values=values))
        elif kind == "periodic":
            # Degrees would be wrapped to angles that mean nothing, without a word.
            if values[-1] - values[0] > (1 + TOLERANCE) * 2 * math.pi:
                raise UserError(
                    f"{name} goes from {values[0]:g} to {values[-1]:g}, more than one turn in radians: declare its "
                    f"factor, such as Factor({name!r}, 'periodic', range=(0, 360))."
                )
            found.append(Factor(name, kind, range=turn))
        else:
            span = values[0], values[-1]
            found.append(Factor(name, kind, range=span, values=values if few or len(values) == 1 else ()))
    return Factors(tuple(found), tuple(classes))
