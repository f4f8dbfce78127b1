"""SAP, the separated attribute predictability: how far the best code of a factor is ahead of the second best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.svm import LinearSVC

from ident3d.metrics.factors import FACTOR_BINS, Kind, kinds_of, level_rows
from ident3d.metrics.inputs import Flags, Floats, lead_of_best, mean_over_varying, pair, standardized, varies
from ident3d.metrics.periodic import squared_correlation
from ident3d.metrics.result import Score


@dataclass(frozen=True, eq=False)
class Sap(Score):
    """Mean gap; `matrix` (d, k) has the score of every code for every factor."""

    per_latent: Floats
    matrix: Floats


def sap(z: ArrayLike, h: ArrayLike, *, kinds: Sequence[Kind] | None = None) -> Sap:
    """Return continuous SAP: (1/d) Σ_i (S_first,i - S_second,i), S_ij the squared correlation of code j with factor i.

    First and second are the two codes with the largest S for factor i (0 for a second code that is not there). In
    [0, 1]; 1 if each factor is an affine function of exactly one code and uncorrelated with the others. For a periodic
    factor S is the circular-linear R² (see `squared_correlation`). A constant code has S = 0.

    Reference: Kumar, Sattigeri, Balakrishnan, "Variational Inference of Disentangled Latent Concepts from Unlabeled
    Observations", ICLR 2018; `continuous_factors=True` in disentanglement_lib.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.

    Returns:
        A `Sap`: the mean gap, that of each latent, and S (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> round(float(metrics.sap(z, z)), 1), metrics.sap(z, z[:, ::-1]).matrix.argmax(axis=1).tolist()
        (1.0, [2, 1, 0])
    """
    latents, codes = pair(z, h)
    return _gap(squared_correlation(latents, codes, kinds_of(latents, kinds)), varies(latents))


def sap_discrete(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    factor_bins: int = FACTOR_BINS,
    standardize: bool = False,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int = 0,
) -> Sap:
    """Return discrete SAP: `sap`, with S_ij the held-out accuracy of a linear classifier of factor i from code j alone.

    The classifier is a linear support vector machine, one-vs-rest, squared hinge, C = 0.01, classes balanced.
    In [0, 1]. Continuous and periodic factors are cut into `factor_bins` levels. Its d·k fits make it the slow one.

    Convention: the published values come from codes in their own units, as here, so that rescaling a code changes the
    regularisation and with it the score; `standardize=True` removes that dependence.

    Reference: Kumar et al., ICLR 2018; `continuous_factors=False` in disentanglement_lib.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        standardize: Standardise the codes by the fitted rows.
        test: Latents (M, d) and codes (M, k) to score on, instead of a half of the rows.
        seed: What shuffles the rows before half of them are held out.

    Returns:
        A `Sap`: the mean gap, that of each latent, and S (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> metrics.sap_discrete(z % 2, z % 2).matrix.argmax(axis=1).tolist()
        [0, 1, 2]
    """
    data = level_rows(z, h, test, seed, kinds, factor_bins)
    fit, scored = data.rows.h_fit, data.rows.h
    if standardize:
        scale = standardized(fit)
        fit, scored = scale.columns, (scored - scale.mean) / scale.scale
    # A factor with one fitted level has no classifier; it is left out as a constant one is.
    moving = np.array([np.unique(labels).size > 1 for labels in data.levels_fit.T])
    matrix = np.zeros((data.levels.shape[1], fit.shape[1]))
    for i in np.flatnonzero(moving):
        for j in range(fit.shape[1]):
            # The classifier and its C are the reference's; its published values depend on both.
            model = LinearSVC(C=0.01, class_weight="balanced", dual="auto", random_state=seed)
            model.fit(fit[:, j : j + 1], data.levels_fit[:, i])
            matrix[i, j] = np.mean(model.predict(scored[:, j : j + 1]) == data.levels[:, i])
    return _gap(matrix, moving)


def _gap(matrix: Floats, moving: Flags) -> Sap:
    per_latent = np.where(moving, lead_of_best(matrix), np.nan)
    return Sap(mean_over_varying(per_latent), per_latent, matrix)
