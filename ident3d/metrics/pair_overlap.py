"""Overlap: how often something else in the batch lies nearer to an anchor than its own positive."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError
from ident3d.metrics.inputs import Floats, pair
from ident3d.metrics.result import Score

# Squared distances held at once: 64 MB of them.
AT_ONCE = 2**23


@dataclass(frozen=True, eq=False)
class Overlap(Score):
    """Share of anchors whose nearest batch member is not their positive.

    `positive` and `other` are, for each anchor that was looked at, its distance to its positive and to the nearest of
    all others in its batch.
    """

    batch: int
    positive: Floats = field(repr=False)
    other: Floats = field(repr=False)


def overlap(z: ArrayLike, z_tilde: ArrayLike, *, batch: int | None = None) -> Overlap:
    """Return the share of anchors whose nearest batch member, by Euclidean distance, is not their positive.

    (1/N) Σ_i [min over v ≠ z_i, z̃_i of |z_i - v| < |z_i - z̃_i|], v from both views of the batch that i is in. Near 0
    for pairs that are narrow beside the distances in a batch; 1 - 1/(2B - 1) if positives are no nearer than others.
    Rows stand in batches as they come, and the last rows that fill none are left out.

    Convention: the measure is ours. The paper shows histograms of cosines, which on a sphere order as distances do.

    Args:
        z: Anchors (N, d): latents, codes or pixels.
        z_tilde: Their positives (N, d).
        batch: Pairs in a batch; by default all of them.

    Returns:
        An `Overlap`: the share, and both distances of each anchor.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.arange(6.0)[:, None]
        >>> float(metrics.overlap(z, z + 0.1)), float(metrics.overlap(z, z + 3))
        (0.0, 1.0)
    """
    first, second = pair(z, z_tilde, ("anchors z", "positives z_tilde"))
    if first.shape != second.shape:
        raise UserError(f"Anchors have {first.shape[1]} columns and positives {second.shape[1]}; they must match.")
    size = len(first) if batch is None else batch
    if not 2 <= size <= len(first):
        raise UserError(f"A batch has 2 pairs or more, and no more than there are: {len(first)}, not {size}.")
    positive = np.linalg.norm(first - second, axis=1)
    other = np.concatenate(
        [nearest_other(first[k : k + size], second[k : k + size]) for k in range(0, len(first) - size + 1, size)]
    )
    positive = positive[: len(other)]
    return Overlap(float((other < positive).mean()), size, positive, other)


def nearest_other(anchors: Floats, positives: Floats) -> Floats:
    """Return for each anchor of a batch the distance to the nearest member that is neither itself nor its positive."""
    # Centred, so that squares lose no digits to a common offset.
    middle = anchors.mean(0)
    here, everything = anchors - middle, np.concatenate([anchors, positives]) - middle
    lengths, count = np.square(everything).sum(1), len(anchors)
    found = np.empty(count)
    step = max(1, AT_ONCE // len(everything))
    for start in range(0, count, step):
        rows = np.arange(start, min(start + step, count))
        squares = lengths[rows, None] + lengths - 2 * here[rows] @ everything.T
        squares[np.arange(len(rows)), rows] = np.inf
        squares[np.arange(len(rows)), count + rows] = np.inf
        # The nearest one's distance again, from the difference itself: close points lose their digits above.
        found[rows] = np.linalg.norm(here[rows] - everything[squares.argmin(1)], axis=1)
    return found
