"""A run's codes of the images on a page, and how strongly each code goes with each latent."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ident3d.training.explorer.coordinates import Axis

# More codes than this are not looked through one by one.
MOST_CODES: Final = 64
Table = NDArray[np.float64]


class ShownCodes(NamedTuple):
    """Codes (n, c) with their numbers in the run, what they share with the latents (d, c), and each latent's code.

    A latent that is held, or has no code left, is matched with -1.
    """

    values: NDArray[np.float32]
    numbers: tuple[int, ...]
    strength: Table
    matched: tuple[int, ...]
    total: int

    def as_dict(self) -> dict[str, Any]:
        """Return what the page has to know besides the values."""
        return {
            "names": [f"h{k}" for k in self.numbers],
            "strength": np.round(self.strength, 3).tolist(),
            "matched": list(self.matched),
            "total": self.total,
        }


def shown_codes(axes: tuple[Axis, ...], latents: NDArray[np.float32], codes: NDArray[np.float32]) -> ShownCodes:
    """Return the codes (n, c) that a page shows beside latents (n, d): those that say most about one of them."""
    found = strengths(axes, latents.astype(np.float64), codes.astype(np.float64))
    best = found.max(0) if len(axes) else np.zeros(codes.shape[1])
    kept = np.sort(np.argsort(-best, kind="stable")[:MOST_CODES])
    found = found[:, kept]
    matched = np.full(len(axes), -1)
    rows, columns = linear_sum_assignment(-found)
    matched[rows] = np.where(found[rows, columns] > 0, columns, -1)
    numbers = tuple(kept.tolist())
    return ShownCodes(codes[:, kept], numbers, found, tuple(matched.tolist()), codes.shape[1])


def strengths(axes: tuple[Axis, ...], latents: Table, codes: Table) -> Table:
    """Return (d, c) from 0 to 1: the square root of the share of a code's variance that one latent explains.

    Of an ordered latent by a line, so that it is |r|; of a periodic one by its cosine and sine; of a categorical one by
    the mean of each value. A latent or code that does not vary has 0.
    """
    centred = codes - codes.mean(0)
    # Rounding of a constant is no variance.
    varies = codes.std(0) > 1e-7 * (1 + np.abs(codes).max(0))
    total = np.where(varies, (centred**2).sum(0), np.inf)
    explained = [explained_by(axis, latents[:, k], centred) for k, axis in enumerate(axes)]
    shares = np.array(explained).reshape(len(axes), codes.shape[1]) / total
    return np.asarray(np.sqrt(np.minimum(shares, 1)))


def explained_by(axis: Axis, column: Table, centred: Table) -> Table:
    """Return the sum of squares (c,) of centred codes (n, c) that a latent (n,) explains."""
    if axis.kind == "categorical":
        _, group, count = np.unique(column, return_inverse=True, return_counts=True)
        sums = np.zeros((len(count), centred.shape[1]))
        np.add.at(sums, group, centred)
        categories: Table = (sums**2 / count[:, None]).sum(0)
        return categories
    turn = np.pi * column
    basis = np.column_stack([np.cos(turn), np.sin(turn)] if axis.kind == "periodic" else [column])
    # A latent without variance has no direction, and explains nothing.
    left, sizes, _ = np.linalg.svd(basis - basis.mean(0), full_matrices=False)
    left = left[:, sizes > 1e-9 * np.sqrt(len(column))]
    ordered: Table = ((left.T @ centred) ** 2).sum(0)
    return ordered
