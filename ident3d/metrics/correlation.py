"""Identified up to permutation and a map of each coordinate: the mean correlation coefficient (MCC)."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ident3d.errors import check_known
from ident3d.metrics.inputs import Flags, Floats, Integers, mean_over_varying, pair, standardized, varies
from ident3d.metrics.kernel import coordinate_correlation
from ident3d.metrics.result import Score

Correlation = Literal["pearson", "spearman", "kernel"]


@dataclass(frozen=True, eq=False)
class Mcc(Score):
    """Mean correlation of the latents with their matched codes.

    `per_latent` is the absolute correlation of each latent with its code: 0 without a code, NaN for a constant latent.
    `correlation` is the signed matrix (d, k) before matching and `assignment` the code of each latent, -1 for none.
    `matched` is the mean over the matched latents alone; it differs from the headline when there are fewer codes than
    latents.
    """

    per_latent: Floats
    correlation: Floats
    assignment: Integers
    matched: float


def mcc(
    z: ArrayLike,
    h: ArrayLike,
    *,
    correlation: Correlation = "pearson",
    max_rows: int = 1000,
    seed: int = 0,
) -> Mcc:
    """Return the mean correlation coefficient: max over one-to-one π of (1/d) Σ_i |corr(z_i, h_π(i))|.

    In [0, 1]; the matching is optimal (not greedy). `correlation` chooses the maps of a coordinate that go unpunished:
    `"pearson"` affine ones, `"spearman"` monotone ones (Pearson correlation of midranks), `"kernel"` any smooth one:
    the correlation of z_i with a kernel-ridge prediction from h_j alone on held-out rows, at least 0, using at most
    `max_rows` rows chosen by `seed` (the other two use all rows and no seed).

    Conventions: a latent without a code counts 0 (the references need d = k; `matched` leaves it out). A constant code
    correlates 0 with everything (it gives NaN, and an endless loop in the matching, in cl-ica). A constant latent is
    left out. Independent data give a little above 0, about the largest of k values near 1/√N.

    References: Hyvärinen and Morioka, "Unsupervised Feature Extraction by Time-Contrastive Learning and Nonlinear
    ICA", NeurIPS 2016; Zimmermann et al., ICML 2021.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        correlation: "pearson", "spearman" or "kernel".
        max_rows: The most rows that "kernel" uses.
        seed: What chooses the rows for "kernel" and halves them.

    Returns:
        An `Mcc`: the mean, the correlation matrix (d, k) before matching, and the code of each latent.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> found = metrics.mcc(z, -2 * z[:, [2, 0, 1]])
        >>> round(float(found), 6), found.assignment.tolist()
        (1.0, [1, 2, 0])
    """
    latents, codes = pair(z, h)
    check_known("correlation", correlation, get_args(Correlation))
    if correlation == "kernel":
        matrix = coordinate_correlation(latents, codes, max_rows=max_rows, seed=seed)
    else:
        matrix = correlation_matrix(latents, codes, ranks=correlation == "spearman")
    return match_codes(matrix, varies(latents))


def correlation_matrix(z: Floats, h: Floats, *, ranks: bool = False) -> Floats:
    """Return the Pearson correlation of latents (rows) with codes (columns), of midranks if `ranks`; 0 if constant."""
    if ranks:
        z, h = rankdata(z, axis=0), rankdata(h, axis=0)
    matrix = standardized(z).columns.T @ standardized(h).columns / len(z)
    # Round-off can carry a perfect correlation a little beyond 1.
    return np.clip(matrix, -1, 1)


def match_codes(correlation: Floats, moving: Flags) -> Mcc:
    """Return the best one-to-one assignment on |correlation|, for the latents that vary (`moving`)."""
    # Constant latents have no row in the matching: they must not take a code away from one that varies.
    strength = np.abs(correlation)
    assignment = np.full(len(strength), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(strength[moving], maximize=True)
    assignment[np.flatnonzero(moving)[rows]] = columns
    has_code = assignment >= 0
    # A latent that gets no code counts 0, or an encoder with fewer codes would score higher.
    per_latent = np.where(moving, 0.0, np.nan)
    per_latent[has_code] = strength[has_code, assignment[has_code]]
    return Mcc(mean_over_varying(per_latent), per_latent, correlation, assignment, float(per_latent[has_code].mean()))
