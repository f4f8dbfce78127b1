"""What a score accepts: two arrays with one row per sample, checked once and turned into float64.

Two rules hold for every score. A value that is not finite is an error, never silently a low score. A latent that does
not vary has nothing to be identified: it is reported as NaN and left out of the headline.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Rows(NamedTuple):
    """Rows to fit on and rows to score on; the same arrays when nothing is held out."""

    z_fit: Floats
    h_fit: Floats
    z: Floats
    h: Floats
    held_out: bool

    def check_fit(self, fit: str) -> None:
        """Refuse a fit that is scored on its own rows and has no more of them than unknowns."""
        if not self.held_out:
            check_rows(fit, *self.h_fit.shape)


class Standardized(NamedTuple):
    """Columns with mean 0 and population standard deviation 1.

    A column that is not `moving` is constant: all 0 and of scale 1.
    """

    columns: Floats
    mean: Floats
    scale: Floats
    moving: Flags


def plain_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return the NumPy array behind anything array-like, such as a torch tensor with a gradient or on a device."""
    source: Any = values
    # A torch tensor that needs a gradient, or lies on a GPU, refuses np.asarray.
    if hasattr(source, "detach") and hasattr(source, "cpu"):
        source = source.detach().cpu()
        # NumPy has no bfloat16; each of its numbers is a float32.
        source = source.float() if str(source.dtype) == "torch.bfloat16" else source
    if isinstance(source, str | Path):
        raise UserError(f"{name} must be an array, not the path {str(source)!r}; numpy.load reads one from a file.")
    try:
        array = np.asarray(source)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{name} cannot be read as an array: {error}.") from error
    if isinstance(source, np.ma.MaskedArray) and np.any(source.mask):
        raise UserError(f"{name} has masked values; leave those rows out first.")
    # Python objects would fail further down, with words of NumPy's that name no argument.
    if array.dtype == object:
        raise UserError(f"{name} holds Python objects or rows of different lengths; it must be a plain array.")
    return array


def matrix(values: ArrayLike, name: str) -> Floats:
    """Return `values` as a finite float64 array (rows, columns); one dimension is read as a single column."""
    array = plain_array(values, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise UserError(f"{name} must have shape (samples, dimensions); it has shape {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise UserError(f"{name} must hold real numbers; it holds {array.dtype}.")
    # Every score computes in float64: squares of half precision would overflow.
    floats = np.asarray(array, dtype=np.float64)
    if not np.isfinite(floats).all():
        columns = np.flatnonzero(~np.isfinite(floats).all(axis=0)).tolist()
        raise UserError(f"{name} has values that are not finite (NaN or infinity) in columns {columns}.")
    return floats


def pair(z: ArrayLike, h: ArrayLike, names: tuple[str, str] = ("latents z", "codes h")) -> tuple[Floats, Floats]:
    """Return latents and codes as matrices with equally many rows, at least two."""
    latents, codes = matrix(z, names[0]), matrix(h, names[1])
    if len(latents) != len(codes):
        raise UserError(f"{names[0]} has {len(latents)} rows and {names[1]} has {len(codes)}; they must match.")
    # One row has no variance to explain.
    if len(latents) < 2:
        raise UserError(f"{names[0]} and {names[1]} need at least two rows.")
    return latents, codes


def check_varies(moving: Flags) -> None:
    """Refuse latents that are all constant."""
    if not moving.any():
        raise UserError("Every latent is constant, so there is nothing to identify.")


def check_rows(fit: str, rows: int, columns: int) -> None:
    """Refuse a fit with no more rows than unknowns: it would be exact whatever the codes are."""
    if rows <= columns + 1:
        raise UserError(f"{fit} needs more than {columns + 1} rows for {columns} codes; there are {rows}.")


def class_labels(values: ArrayLike, name: str) -> tuple[Integers, NDArray[Any]]:
    """Return class indices 0..C-1 and the C class values of one-dimensional integers, booleans, floats or strings."""
    array = plain_array(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.size == 0:
        raise UserError(f"{name} must be one label per row; it has shape {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(f"{name} has values that are not finite (NaN or infinity).")
    classes, labels = np.unique(array, return_inverse=True)
    return labels.astype(np.int64), classes


def varies(columns: Floats) -> Flags:
    """Return which columns are not constant, up to the round-off of float64."""
    return _extent(columns)[1]


def standardized(columns: Floats) -> Standardized:
    """Return (x - mean) / std per column. Columns are divided by their largest value first: no square overflows."""
    largest, moving = _extent(columns)
    largest[largest == 0] = 1
    unit = columns / largest
    middle = unit.mean(axis=0)
    unit -= middle
    unit[:, ~moving] = 0
    spread = np.sqrt(np.einsum("ij,ij->j", unit, unit) / len(unit))
    # A constant column keeps scale 1, or what it is divided by would be 0.
    spread[~moving] = 1 / largest[~moving]
    unit /= spread
    return Standardized(unit, middle * largest, spread * largest, moving)


def _extent(columns: Floats) -> tuple[Floats, Flags]:
    """Return the largest absolute value of each column, and whether the column is not constant."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high))
    # Halves, so that the range of the largest float64 numbers does not overflow.
    return largest, high / 2 - low / 2 > 4 * np.finfo(np.float64).eps * largest


def rows_to_use(
    z: ArrayLike, h: ArrayLike, test: tuple[ArrayLike, ArrayLike] | None, split: bool, seed: int | None
) -> Rows:
    """Choose the rows to fit and to score on.

    `test` holds out the given arrays; `split` holds out the second half (the first floor(N/2) rows are fitted), in the
    order given, or after a shuffle by `seed`; otherwise all rows are used for both.
    """
    z_all, h_all = pair(z, h)
    if test is not None:
        z_test, h_test = pair(*test, names=("test latents", "test codes"))
        if z_test.shape[1] != z_all.shape[1] or h_test.shape[1] != h_all.shape[1]:
            raise UserError("The test arrays must have the same columns as the arrays to fit on.")
        return Rows(z_all, h_all, z_test, h_test, held_out=True)
    if not split:
        return Rows(z_all, h_all, z_all, h_all, held_out=False)
    first, second = halves(len(z_all), seed)
    return Rows(z_all[first], h_all[first], z_all[second], h_all[second], held_out=True)


def halves(rows: int, seed: int | None) -> tuple[Integers, Integers]:
    """Return indices of the first floor(N/2) rows and of the rest, in order (`seed` None) or shuffled by `seed`."""
    if rows < 4:
        raise UserError(f"A held-out split needs at least four rows; there are {rows}.")
    # Without a seed the rows keep their order, as in the papers' scripts; a seed is for rows that are sorted.
    order = np.arange(rows) if seed is None else np.random.default_rng(seed).permutation(rows)
    return order[: rows // 2], order[rows // 2 :]


def lead_of_best(table: Floats) -> Floats:
    """Return how far the largest value of each row is ahead of the second largest, 0 if there is only one."""
    # The column of zeros is the second best of a single code.
    ordered = np.sort(np.hstack([np.zeros((len(table), 1)), table]), axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def mean_over_varying(per_latent: Floats) -> float:
    """Return the mean over the latents that vary; NaN marks the others."""
    defined = per_latent[~np.isnan(per_latent)]
    if defined.size == 0:
        raise UserError("Every latent is constant in the rows that are scored, so there is nothing to identify.")
    return float(defined.mean())
