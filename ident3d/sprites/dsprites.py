"""dSprites: its five factors, the order of its images, and the image at any values of the factors."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.streams import words
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors
from ident3d.sprites.outlines import SHAPES, SIZE, centre, place
from ident3d.sprites.polygons import fill

Floats: TypeAlias = NDArray[np.float64]
Where: TypeAlias = Mapping[str, Iterable[float | str] | float | str]

POSITION: Final = tuple(np.linspace(0, 1, 32).tolist())
# As published: the last factor varies fastest. The last orientation is a whole turn, so that its images are the first
# orientation's again; it is a value of its own all the same, as it is in the papers' pairs and scores.
FACTORS: Final = Factors(
    (
        Factor("shape", "categorical", values=SHAPES),
        Factor("scale", values=tuple(np.linspace(0.5, 1, 6).tolist())),
        Factor("orientation", values=tuple(np.linspace(0, 2 * np.pi, 40).tolist())),
        Factor("posX", values=POSITION, group="position"),
        Factor("posY", values=POSITION, group="position"),
    )
)
# The same ranges for values that are none of the published ones.
CONTINUOUS: Final = Factors(
    tuple(f if f.kind == "categorical" else replace(f, range=f.bounds, values=()) for f in FACTORS.factors)
)
# The steps of a random word that choose a value.
HALF_WORD: Final = np.uint64(32)


def images(values: ArrayLike, shapes: Sequence[str] = SHAPES) -> NDArray[np.uint8]:
    """Return images (n, 64, 64) of 0 and 1 at values (n, 5) of the factors; the first is a number in `shapes`."""
    table = np.asarray(values, np.float64)
    out = np.empty((len(table), SIZE, SIZE), np.uint8)
    for number, shape in enumerate(shapes):
        rows = np.flatnonzero(table[:, 0] == number)
        if not len(rows):
            continue
        # What differs only in posX is one outline: the rows that it crosses are the same.
        kinds, which = np.unique(table[rows][:, [1, 2, 4]], axis=0, return_inverse=True)
        out[rows] = fill(place(shape, *kinds.T), which.reshape(-1), centre(table[rows, 3]), SIZE)
    return out


def grid_size(factors: Factors) -> int:
    """Return how many images the full grid of the factors' values has."""
    return prod(len(factor.values) for factor in factors.factors)


def grid_values(factors: Factors, start: int, count: int) -> Floats:
    """Return the values (count, 5) of images start … start+count-1 of the full grid; the last factor varies fastest."""
    number = np.arange(start, start + count)
    return values_at(factors, np.unravel_index(number, [len(factor.values) for factor in factors.factors]))


def drawn_values(factors: Factors, seed: int, split: str, start: int, count: int) -> Floats:
    """Return values (count, 5) drawn uniformly and independently for images start … start+count-1."""
    # Image i depends on seed, split and i alone.
    word = words(seed, split, start, count)
    return values_at(factors, [place_of_word(word[:, k], len(f.values)) for k, f in enumerate(factors.factors)])


def place_of_word(word: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Return a uniform place in a list of `count` for each random word: ⌊w count / 2³²⌋ of its upper half w."""
    return (((word >> HALF_WORD) * np.uint64(count)) >> HALF_WORD).astype(np.int64)


def values_at(factors: Factors, places: Iterable[NDArray[np.int64]]) -> Floats:
    """Return the values (n, 5) at these places in each factor's list."""
    return np.column_stack([factor.positions[k] for factor, k in zip(factors.factors, places, strict=True)])


def subset(where: Where, factors: Factors = FACTORS) -> Factors:
    """Return the factors with only the values that `where` names, in their order."""
    for name in where:
        check_known("factor", name, factors.names)
    return Factors(tuple(keep_values(f, where[f.name]) if f.name in where else f for f in factors.factors))


def keep_values(factor: Factor, wanted: Iterable[float | str] | float | str) -> Factor:
    """Return the factor with only the wanted ones of its values."""
    given = [wanted] if isinstance(wanted, int | float | str) else list(wanted)
    places = sorted({place_in_list(factor, value) for value in given})
    if not places:
        raise UserError(f"No value of {factor.name} is named; name one at least.")
    return replace(factor, range=None, values=tuple(factor.values[k] for k in places))


def place_in_list(factor: Factor, value: float | str) -> int:
    """Return the place of a value in the factor's list; numbers may be rounded to five digits."""
    if value in factor.values:
        return factor.values.index(value)
    # Of a shape, a number would be one of the list's places, and means nothing here.
    if factor.kind != "categorical":
        with suppress(ValueError, TypeError, UserError):
            return int(factor.index(factor.to_raw([float(value)]))[0])
    known = ", ".join(v if isinstance(v, str) else f"{v:.6g}" for v in factor.values)
    raise UserError(f"{value!r} is no value of {factor.name}; choose from {known}.")
