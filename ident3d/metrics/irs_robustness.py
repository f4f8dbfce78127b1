"""IRS, the interventional robustness score: how little a code moves while its factor stays and all others change."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError
from ident3d.metrics.factors import FACTOR_BINS, Kind, levels_of
from ident3d.metrics.inputs import Floats, Integers, check_varies, pair, varies
from ident3d.metrics.result import Score


@dataclass(frozen=True, eq=False)
class Irs(Score):
    """Mean over codes, weighted by how far each moves. `matrix` is (d, k), `factor` the factor of each code.

    `per_code` is NaN, and `factor` -1, for a constant code; rows of `matrix` are NaN for constant latents.
    """

    per_code: Floats
    matrix: Floats
    factor: Integers
    weights: Floats


def irs(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    factor_bins: int = FACTOR_BINS,
    quantile: float = 0.99,
) -> Irs:
    """Return Σ_j w_j max_i (1 - D_ij / w_j) / Σ_j w_j with w_j = max abs(h_j - mean h_j).

    D_ij is the mean over the levels a of z_i of the `quantile` of abs(h_j - E[h_j | z_i = a]) among the rows of that
    level: how far code j still moves while factor i stays. At most 1, where every code is a function of one factor;
    below 0 only for codes with outliers far from the middle of each level. Chance is above 0 and depends on rows and
    levels, because few rows in a level move a code little.

    Conventions: the best factor is taken for each code by itself, as in the reference, so that several codes may share
    one. The paper takes the largest distance (`quantile=1`), the reference's default is 0.99. Continuous and periodic
    latents are cut into `factor_bins` levels; constant codes and latents are left out.

    Reference: Suter, Miladinović, Schölkopf, Bauer, "Robustly Disentangled Causal Mechanisms", ICML 2019; `irs` in
    disentanglement_lib.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        quantile: Which of the distances within a level counts, above 0 and at most 1.

    Returns:
        An `Irs`: the weighted mean, that of each code, and 1 - D_ij / w_j for all pairs (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> found = metrics.irs(z, -2 * z[:, [1, 0]])
        >>> round(float(found), 2), found.factor.tolist()
        (1.0, [1, 0])
    """
    latents, codes = pair(z, h)
    if not 0 < quantile <= 1:
        raise UserError(f"quantile lies above 0 and is at most 1; it is {quantile!r}.")
    check_varies(varies(latents))
    moving = varies(codes)
    if not moving.any():
        raise UserError("Every code is constant, so none can be robust.")
    weights = np.where(moving, np.abs(codes - codes.mean(axis=0)).max(axis=0), 0.0)
    matrix = np.full((latents.shape[1], codes.shape[1]), np.nan)
    for i, levels in enumerate(levels_of(latents, kinds, factor_bins).T):
        groups = [codes[levels == level][:, moving] for level in np.unique(levels)]
        if len(groups) > 1:
            still = [np.quantile(np.abs(rows - rows.mean(axis=0)), quantile, axis=0) for rows in groups]
            matrix[i, moving] = 1 - np.mean(still, axis=0) / weights[moving]
    per_code, factor = np.full(codes.shape[1], np.nan), np.full(codes.shape[1], -1)
    per_code[moving] = np.nanmax(matrix[:, moving], axis=0)
    factor[moving] = np.nanargmax(matrix[:, moving], axis=0)
    return Irs(float(np.average(per_code[moving], weights=weights[moving])), per_code, matrix, factor, weights)
