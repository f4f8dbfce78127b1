"""The class that the nearest neighbours of a row's codes have: how well codes group images of a class."""

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError
from ident3d.metrics.classifiers import ClassAccuracy, accuracy_of, fitted_and_scored
from ident3d.metrics.inputs import Floats

# Similarities held at once: 64 MB of them.
AT_ONCE = 2**23


def knn_accuracy(
    classes: ArrayLike,
    h: ArrayLike,
    *,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    k: int = 200,
    tau: float = 0.1,
    seed: int = 0,
) -> ClassAccuracy:
    """Return the accuracy of k nearest neighbours by cosine, each weighted by exp(cos/τ), on held-out rows.

    (1/N) Σ_n [argmax_c Σ_{m among the k nearest to n} [c_m = c] exp(cos(h_n, h_m)/τ) = c_n]. In [0, 1]; chance is
    `chance`. `test=(classes, h)` holds out those rows, otherwise half of the rows, shuffled by `seed`.

    Reference: Wu, Xiong, Yu and Lin, "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", CVPR
    2018, whose k = 200 and τ are usual; their τ is 0.07, that of later code 0.1.

    Args:
        classes: The class of each row (N,): integers, booleans or strings.
        h: Codes (N, d).
        test: Classes (M,) and codes (M, d) to score on, instead of a half of the rows.
        k: Neighbours, at most all fitted rows.
        tau: The temperature τ of the weights.
        seed: What shuffles the rows before half of them are held out.

    Returns:
        A `ClassAccuracy`: the held-out accuracy, `chance`, and the accuracy within each class.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> h = np.random.default_rng(0).normal(size=(400, 2))
        >>> float(metrics.knn_accuracy(h[:, 0] > 0, h, k=5)) > 0.95
        True
    """
    known, fit_labels, fit_codes, true, codes = fitted_and_scored(classes, h, test, seed)
    if k < 1 or not tau > 0:
        raise UserError(f"There is at least one neighbour, and tau is above 0; not k = {k} and tau = {tau:g}.")
    here, there, k = unit_rows(codes), unit_rows(fit_codes).T, min(k, len(fit_codes))
    predicted = np.empty_like(true)
    step = max(1, AT_ONCE // len(fit_codes))
    for start in range(0, len(here), step):
        rows = slice(start, start + step)
        alike = here[rows] @ there
        nearest = np.argpartition(-alike, k - 1, axis=1)[:, :k]
        # Less the largest possible cosine, so that a small temperature does not overflow.
        weights = np.exp((np.take_along_axis(alike, nearest, 1) - 1) / tau)
        votes = [np.where(fit_labels[nearest] == c, weights, 0).sum(1) for c in range(known.size)]
        predicted[rows] = np.argmax(votes, axis=0)
    return accuracy_of(known, true, predicted)


def unit_rows(codes: Floats) -> Floats:
    """Return the rows divided by their lengths; a row of zeros stays one."""
    lengths = np.linalg.norm(codes, axis=1, keepdims=True)
    return np.asarray(codes / np.where(lengths > 0, lengths, 1))
