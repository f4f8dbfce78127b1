"""What a latent is: continuous, discrete or periodic; and its levels, for the scores that count.

A kind is `"continuous"`, `"discrete"` or the period of a periodic latent, a positive number in the units of z.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError, check_known
from ident3d.metrics.inputs import Floats, Integers, Rows, rows_to_use

Kind = Literal["continuous", "discrete"] | float
Binning = Literal["width", "mass"]

CODE_BINS = 20
FACTOR_BINS = 10


def kinds_of(z: Floats, kinds: Sequence[Kind] | None = None) -> tuple[Kind, ...]:
    """Return the kind of each latent, checked; by default whole numbers of at most CODE_BINS values are discrete."""
    # Files hold class numbers as floats: a few whole numbers are taken for levels, whatever their type is.
    if kinds is None:
        return tuple(
            "discrete" if (column == np.rint(column)).all() and np.unique(column).size <= CODE_BINS else "continuous"
            for column in z.T
        )
    if len(kinds) != z.shape[1]:
        raise UserError(f"kinds must name each of the {z.shape[1]} latents; it names {len(kinds)}.")
    for kind in kinds:
        if not (kind in ("continuous", "discrete") if isinstance(kind, str) else np.isfinite(kind) and kind > 0):
            raise UserError(f"A kind is 'continuous', 'discrete' or a positive period; it is {kind!r}.")
    return tuple(kinds)


def is_periodic(kind: Kind) -> bool:
    return not isinstance(kind, str)


def angles(values: Floats, period: float) -> Floats:
    """Return periodic values in radians: 2π x / period."""
    if not (np.isfinite(period) and period > 0):
        raise UserError(f"A period is a positive number; it is {period!r}.")
    return np.asarray(values * (2 * np.pi / period))


def circle(column: Floats, period: float) -> Floats:
    """Return a periodic column as the points (cos, sin) of the unit circle, shape (N, 2)."""
    angle = angles(column, period)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def bins_of(columns: Floats, bins: int, binning: Binning = "width") -> Integers:
    """Return the bin 0..bins-1 of each value per column; the largest value goes to the last bin.

    `"width"`: bins of equal width between the column's smallest and largest value (Locatello et al. 2019).
    `"mass"`: equally many samples per bin, ties kept together, which any increasing map leaves alone.
    """
    if bins < 2:
        raise UserError(f"There must be at least two bins; there are {bins}.")
    check_known("binning", binning, get_args(Binning))
    index = np.empty(columns.shape, dtype=np.int64)
    for j, column in enumerate(columns.T):
        if binning == "width":
            inner = np.linspace(column.min(), column.max(), bins + 1)[1:-1]
        else:
            # The edges are values of the column, so that an increasing map of the column moves them along.
            inner = np.quantile(column, np.arange(1, bins) / bins, method="inverted_cdf")
        # A constant column has all its edges on its value: one bin, so no information.
        index[:, j] = np.searchsorted(inner, column, side="right" if binning == "width" else "left")
    return index


def levels_of(
    z: Floats, kinds: Sequence[Kind] | None = None, bins: int = FACTOR_BINS, binning: Binning = "width"
) -> Integers:
    """Return latents as levels 0, 1, …: values of a discrete one, bins of a continuous one, arcs of a periodic one."""
    index = bins_of(z, bins, binning)
    for i, kind in enumerate(kinds_of(z, kinds)):
        if kind == "discrete":
            index[:, i] = np.unique(z[:, i], return_inverse=True)[1]
        elif is_periodic(kind):
            # Angles that differ by whole turns are the same, so they must fall into one arc.
            index[:, i] = bins_of(np.mod(z[:, i : i + 1], float(kind)), bins, binning)[:, 0]
    return index


class LevelRows(NamedTuple):
    """Rows to fit and to score, with the levels of every factor counted alike in both."""

    rows: Rows
    levels_fit: Integers
    levels: Integers
    kinds: tuple[Kind, ...]


def level_rows(
    z: ArrayLike,
    h: ArrayLike,
    test: tuple[ArrayLike, ArrayLike] | None,
    seed: int,
    kinds: Sequence[Kind] | None,
    bins: int = FACTOR_BINS,
) -> LevelRows:
    """Return the rows of a score that fits a classifier: `test` or else one half, shuffled by `seed`, is held out."""
    rows = rows_to_use(z, h, test, split=test is None, seed=seed)
    # Levels are counted over both parts: a level has the same number in each.
    both = np.vstack([rows.z_fit, rows.z])
    checked = kinds_of(both, kinds)
    levels = levels_of(both, checked, bins)
    return LevelRows(rows, levels[: len(rows.z_fit)], levels[len(rows.z_fit) :], checked)
