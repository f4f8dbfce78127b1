"""Identified up to a linear or an orthogonal map: linear R², affine fit and orthogonal fit."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError, check_known
from ident3d.metrics.inputs import (
    Floats,
    check_rows,
    check_varies,
    mean_over_varying,
    pair,
    rows_to_use,
    standardized,
    varies,
)
from ident3d.metrics.result import Score

Regressors = Literal["codes", "latents"]


@dataclass(frozen=True, eq=False)
class LinearR2(Score):
    """Mean R² over the latents that vary. `per_latent` is NaN for a constant latent.

    `true` and `predicted` are the `rows` scored rows.
    """

    per_latent: Floats
    rows: int
    codes: int
    held_out: bool
    true: Floats = field(repr=False)
    predicted: Floats = field(repr=False)

    def adjusted(self, count: Regressors = "codes") -> float:
        """Return 1 - (1 - R²)(n - 1)/(n - p - 1), with n rows and p regressors.

        p is the number of codes, as the correction is derived for. The cl-ica code sets p to the number of true
        latents instead, which is `count="latents"`; the two agree when there are as many codes as latents.

        Args:
            count: "codes" or "latents": what p counts.

        Returns:
            The adjusted R².

        Example:
            >>> import numpy as np
            >>> from ident3d import metrics
            >>> z = np.random.default_rng(0).uniform(size=(100, 3))
            >>> found = metrics.linear_r2(z, z + 0.3)
            >>> round(found.adjusted(), 6)
            1.0
        """
        check_known("count", count, get_args(Regressors))
        if self.held_out:
            raise UserError("Adjusted R² corrects a score on the fitted rows; a held-out R² needs no correction.")
        regressors = self.codes if count == "codes" else self.per_latent.size
        if self.rows - regressors < 2:
            raise UserError(f"Adjusted R² needs more than {regressors + 1} rows; there are {self.rows}.")
        return 1 - (1 - self.score) * (self.rows - 1) / (self.rows - regressors - 1)


@dataclass(frozen=True, eq=False)
class FitResidual(Score):
    """Relative residual of the best map of a family, 0 for a perfect fit.

    The map is ẑ = h @ weights.T + offset: `weights` is (d, k), as in `torch.nn.Linear`.
    """

    per_latent: Floats
    weights: Floats
    offset: Floats


def affine_map(z: Floats, h: Floats) -> tuple[Floats, Floats]:
    """Return least-squares weights (k, d) and offset (d,) of ẑ = h @ weights + offset, of least norm if not unique."""
    codes, latents = standardized(h), standardized(z)
    # Standardised columns make the rank decision independent of the units of each code.
    solution = np.linalg.lstsq(codes.columns, latents.columns, rcond=None)[0]
    weights = solution / codes.scale[:, None] * latents.scale
    return weights, latents.mean - codes.mean @ weights


def unexplained(true: Floats, predicted: Floats) -> Floats:
    """Return residual / centred sum of squares per column; NaN if the true column is constant."""
    target = standardized(true)
    # In units of the true column's deviation, so that no square overflows.
    residual = (true - predicted) / target.scale
    fraction = np.asarray(np.einsum("ij,ij->j", residual, residual) / len(true))
    fraction[~target.moving] = np.nan
    return fraction


def linear_r2(
    z: ArrayLike,
    h: ArrayLike,
    *,
    split: bool = False,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int | None = None,
) -> LinearR2:
    """Return R² of the best affine prediction of the latents from the codes.

    R²_i = 1 - Σ_n (z_ni - ẑ_ni)² / Σ_n (z_ni - z̄_i)² with ẑ = hW + b by ordinary least squares; the headline is the
    plain mean over the latents. 1 means identified up to an invertible affine map.

    `split=True` fits the first floor(N/2) rows and scores the others, centred on their own mean (Zimmermann et al.
    2021, Table 4); give a `seed` to shuffle first if the rows are ordered. `test=(z, h)` scores other rows. Held-out
    values can be negative. Without a split, N <= k + 1 rows are refused: the fit would be exact whatever the codes are.

    Reference: Zimmermann, Sharma, Schneider, Bethge, Brendel, "Contrastive Learning Inverts the Data Generating
    Process", ICML 2021.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        split: Score the rows that were not fitted.
        test: Latents (M, d) and codes (M, k) to score on, instead of the fitted rows.
        seed: What shuffles the rows before half of them are held out; by default they keep their order.

    Returns:
        A `LinearR2`: the mean R², that of each latent, and the predictions.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> found = metrics.linear_r2(z, z[:, :2] @ np.array([[1, 2], [3, 4]]))
        >>> found.per_latent.round(1).tolist()
        [1.0, 1.0, 0.0]
    """
    rows = rows_to_use(z, h, test, split, seed)
    rows.check_fit("Linear R²")
    # Held-out rows are predicted by the map of the fitted ones, and centred on their own mean in `unexplained`.
    weights, offset = affine_map(rows.z_fit, rows.h_fit)
    predicted = rows.h @ weights + offset
    per_latent = 1 - unexplained(rows.z, predicted)
    count, codes = rows.h.shape
    return LinearR2(mean_over_varying(per_latent), per_latent, count, codes, rows.held_out, rows.z, predicted)


def affine_residual(z: ArrayLike, h: ArrayLike) -> FitResidual:
    """Return the relative residual of the best affine map: min_{W,b} ‖z - hW - b‖ / ‖z - z̄‖ (Frobenius norms).

    In [0, 1]; 0 means identified up to an affine map. Unlike linear R² it weighs each latent by its variance, and it
    returns the map. Its square is one minus the variance-weighted R².

    Args:
        z: True latents (N, d).
        h: Codes (N, k).

    Returns:
        A `FitResidual`: the residual, that of each latent, and the map.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> found = metrics.affine_residual(z, 2 * z + 1)
        >>> round(float(found), 6), found.weights.diagonal().round(6).tolist()
        (0.0, [0.5, 0.5, 0.5])
    """
    latents, codes = pair(z, h)
    check_rows("An affine fit", *codes.shape)
    weights, offset = affine_map(latents, codes)
    fraction = unexplained(latents, codes @ weights + offset)
    target = standardized(latents)
    check_varies(target.moving)
    # In units of the widest latent, so that no square overflows.
    variance = np.square(target.scale[target.moving] / target.scale[target.moving].max())
    score = float(np.sqrt(fraction[target.moving] @ variance / variance.sum()))
    return FitResidual(score, np.sqrt(fraction), weights.T, offset)


def orthogonal_residual(z: ArrayLike, h: ArrayLike, *, scale: bool = True, center: bool = True) -> FitResidual:
    """Return the relative residual of the best rotation or reflection: min ‖z - s hQ - b‖ / ‖z - z̄‖ over QᵀQ = 1.

    0 means identified up to an orthogonal map, which is what the theory promises on the sphere. Q = UVᵀ from the
    singular value decomposition hᵀz = USVᵀ (orthogonal Procrustes problem, Schönemann 1966), s = tr S / ‖h‖².
    With `scale` the value is in [0, 1]; `scale=False` fixes s = 1, `center=False` fixes b = 0 (the norm of z is then
    not centred either). When d ≠ k the narrower side is padded with zero columns, so that surplus codes count as
    residual in the fit.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        scale: Fit a common scale s.
        center: Fit an offset b.

    Returns:
        A `FitResidual`: the residual, that of each latent, and the map.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> round(float(metrics.orthogonal_residual(z, -3 * z[:, ::-1])), 6)
        0.0
    """
    latents, codes = pair(z, h)
    if center:
        check_varies(varies(latents))
    # An orthogonal map needs as many columns on both sides.
    width = max(latents.shape[1], codes.shape[1])
    z_mean = latents.mean(axis=0) if center else np.zeros(latents.shape[1])
    h_mean = codes.mean(axis=0) if center else np.zeros(codes.shape[1])
    z_wide, h_wide = _pad(latents - z_mean, width), _pad(codes - h_mean, width)
    z_size = float(np.abs(z_wide).max())
    if z_size == 0:
        raise UserError("Every latent is zero, so there is nothing to identify.")
    # In units of the largest value, so that no square overflows; the same units for both if s is fixed.
    h_size = (float(np.abs(h_wide).max()) or 1.0) if scale else z_size
    z_wide, h_wide = z_wide / z_size, h_wide / h_size
    # The Procrustes problem: Q = UVᵀ turns the codes onto the latents as well as any orthogonal map can.
    u, singular, vt = np.linalg.svd(h_wide.T @ z_wide)
    energy = float(np.square(h_wide).sum())
    factor = float(singular.sum()) / energy if scale and energy > 0 else 1.0
    rotation = factor * (u @ vt)
    residual = z_wide - h_wide @ rotation
    weights = rotation[: codes.shape[1], : latents.shape[1]] * (z_size / h_size)
    own = np.where(varies(latents), np.linalg.norm(z_wide[:, : latents.shape[1]], axis=0), np.nan)
    per_latent = np.linalg.norm(residual[:, : latents.shape[1]], axis=0) / own
    score = float(np.linalg.norm(residual) / np.linalg.norm(z_wide))
    return FitResidual(score, per_latent, weights.T, z_mean - h_mean @ weights)


def _pad(columns: Floats, width: int) -> Floats:
    return np.pad(columns, ((0, 0), (0, width - columns.shape[1])))
