"""SHD, the structural Hamming distance: how many arrows of a graph an estimate has wrong."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError
from ident3d.metrics.inputs import Flags, matrix
from ident3d.metrics.result import Score


@dataclass(frozen=True, eq=False)
class Shd(Score):
    """Wrong pairs of nodes: `missing` and `extra` links, and links that are there but point otherwise (`turned`)."""

    missing: int
    extra: int
    turned: int


def shd(graph: ArrayLike, estimate: ArrayLike, *, threshold: float = 0.0, double_turned: bool = False) -> Shd:
    """Return the structural Hamming distance: the number of pairs of nodes whose link differs.

    A pair counts once if its link is missing, extra, or points otherwise: the other way, or both ways instead of one.
    0 for equal graphs, at most d(d - 1)/2. With `double_turned` every differing entry of the matrices counts instead,
    so that an arrow the other way counts 2; that is the default of the Causal Discovery Toolbox's SHD.

    Reference: Tsamardinos, Brown, Aliferis, "The max-min hill-climbing Bayesian network structure learning algorithm",
    Machine Learning 65, 2006.

    Args:
        graph: The true graph (d, d): entry (i, j) is not 0 if i → j. `CausalModel.adjacency` has that of a dataset.
        estimate: The estimate (d, d), of the same nodes in the same order; weights are allowed.
        threshold: Entries up to this size are no arrow.
        double_turned: Count every entry that differs.

    Returns:
        A `Shd`: the distance, and how it comes about.

    Example:
        >>> from ident3d import metrics
        >>> found = metrics.shd([[0, 1, 0], [0, 0, 1], [0, 0, 0]], [[0, 0, 1], [0.7, 0, 1], [0, 0, 0]])
        >>> float(found), found.missing, found.extra, found.turned
        (2.0, 0, 1, 1)
    """
    if not 0 <= threshold < np.inf:
        raise UserError(f"threshold is a number of at least 0; it is {threshold!r}.")
    true, found = (_arrows(given, name, threshold) for given, name in ((graph, "graph"), (estimate, "estimate")))
    if true.shape != found.shape:
        raise UserError(f"graph has {len(true)} nodes and estimate has {len(found)}; they must match.")
    above = np.triu_indices(len(true), 1)
    linked, links = ((arrows | arrows.T)[above] for arrows in (true, found))
    differs = ((true != found) | (true != found).T)[above]
    missing, extra = int((linked & ~links).sum()), int((~linked & links).sum())
    total = (true != found).sum() if double_turned else differs.sum()
    return Shd(float(total), missing, extra, int(differs.sum()) - missing - extra)


def _arrows(given: ArrayLike, name: str, threshold: float) -> Flags:
    arrows: Flags = np.abs(matrix(given, name)) > threshold
    if arrows.shape[0] != arrows.shape[1]:
        raise UserError(
            f"{name} must be a square matrix, a row and a column for each node; it has shape {arrows.shape}."
        )
    if arrows.diagonal().any():
        raise UserError(f"{name} has an arrow from node {int(arrows.diagonal().argmax())} to itself.")
    return arrows
