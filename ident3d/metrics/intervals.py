"""Confidence intervals by the bootstrap. Every score here is a function of weighted means over rows."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from ident3d.errors import UserError, check_known
from ident3d.metrics.inputs import Flags, Floats, check_rows, check_varies, pair, plain_array, standardized, varies
from ident3d.metrics.resampling import covariances, rank_covariances, resampled_means


class Interval(NamedTuple):
    """Percentile interval of the headline and of each latent (NaN for a constant latent)."""

    low: float
    high: float
    low_per_latent: Floats
    high_per_latent: Floats


def bootstrap(
    z: ArrayLike,
    h: ArrayLike,
    scores: Sequence[str] = ("linear_r2", "mcc_pearson"),
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return percentile bootstrap intervals (Efron 1979) of scores that are functions of first and second moments.

    `scores` may name linear_r2, affine_residual, orthogonal_residual, mcc_pearson and mcc_spearman; the matching is
    redone and the ranks are retaken in every resample. All use the same draws, so differences between them compare.

    A resample repeats rows, so that an in-sample R² and a chance-level MCC come out a little higher (by about k/N for
    R²): an interval near chance can lie above its value. N should be well above the number of codes.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        scores: Names of scores.
        resamples: The number of bootstrap resamples.
        level: The share of resamples that the interval holds.
        seed: What draws the rows.

    Returns:
        Name → `Interval`, for the headline and for each latent.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> found = metrics.bootstrap(z, z + 0.1, ["linear_r2"], resamples=50)
        >>> round(found["linear_r2"].low, 6), round(found["linear_r2"].high, 6)
        (1.0, 1.0)
    """
    latents, codes = pair(z, h)
    check_bootstrap(resamples, level)
    for name in scores:
        check_known("bootstrapped score", name, STATISTICS)
    check_rows("A bootstrap", *codes.shape)
    moving = varies(latents)
    check_varies(moving)
    # Units of each side's widest column: no score here depends on a common scale of the codes or of the latents.
    spread = np.concatenate([scale / scale.max() for scale in (_deviations(codes), _deviations(latents[:, moving]))])
    columns = standardized(np.hstack([codes, latents[:, moving]])).columns
    # Values and ranks are resampled once each, and every score reads the same resamples.
    of_score = {name: rank_covariances if name == "mcc_spearman" else covariances for name in scores}
    drawn = {of: np.concatenate(list(of(columns, resamples, seed))) for of in set(of_score.values())}
    return {
        name: _interval(*STATISTICS[name](drawn[of], codes.shape[1], spread), moving, level)
        for name, of in of_score.items()
    }


def bootstrap_predictions(
    true: ArrayLike, predicted: ArrayLike, *, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return the interval of the mean R² of held-out predictions: scored rows are resampled, the fitted model stays.

    Args:
        true: The values that were to be predicted (N, d).
        predicted: The predictions (N, d).
        resamples: The number of bootstrap resamples.
        level: The share of resamples that the interval holds.
        seed: What draws the rows.

    Returns:
        An `Interval` of the mean R² and of each latent.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).uniform(size=(400, 3))
        >>> found = metrics.linear_r2(z, z[:, :2], split=True)
        >>> interval = metrics.bootstrap_predictions(found.true, found.predicted)
        >>> interval.low < float(found) < interval.high
        True
    """
    target, estimate = pair(true, predicted, names=("true values", "predictions"))
    check_bootstrap(resamples, level)
    if target.shape != estimate.shape:
        raise UserError(f"True values and predictions have different shapes, {target.shape} and {estimate.shape}.")
    moving = varies(target)
    check_varies(moving)
    scale = standardized(target[:, moving])
    missed = np.square((estimate[:, moving] - scale.mean) / scale.scale - scale.columns)
    features = np.hstack([scale.columns, np.square(scale.columns), missed])
    means = np.concatenate(list(resampled_means(features, resamples, seed)))
    first, second, residual = np.split(means, 3, axis=1)
    variance = second - np.square(first)
    # A resample of few different rows may hold a constant latent, which has no R².
    usable = (variance > 1e-12).all(axis=1)
    if not usable.any():
        raise UserError(f"The bootstrap finds a constant latent in every resample of the {len(target)} rows.")
    r2 = 1 - residual[usable] / variance[usable]
    return _interval(r2.mean(axis=1), r2, moving, level)


def bootstrap_accuracy(
    true: ArrayLike, predicted: ArrayLike, *, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return the interval of the accuracy of held-out predictions: scored rows are resampled, the fitted model stays.

    Args:
        true: The classes (N,).
        predicted: The predicted classes (N,).
        resamples: The number of bootstrap resamples.
        level: The share of resamples that the interval holds.
        seed: What draws the rows.

    Returns:
        An `Interval` of the accuracy.

    Example:
        >>> from ident3d import metrics
        >>> interval = metrics.bootstrap_accuracy([0, 1, 0, 1] * 25, [0, 1, 1, 1] * 25)
        >>> 0.6 < interval.low < 0.75 < interval.high < 0.9
        True
    """
    labels, named = plain_array(true, "true classes"), plain_array(predicted, "predicted classes")
    check_bootstrap(resamples, level)
    if labels.ndim != 1 or labels.shape != named.shape or labels.size == 0:
        raise UserError(f"True and predicted classes need one label per row; shapes {labels.shape}, {named.shape}.")
    right = np.asarray(labels == named, dtype=np.float64)[:, None]
    accuracy = np.concatenate(list(resampled_means(right, resamples, seed)))[:, 0]
    return _interval(accuracy, np.empty((resamples, 0)), np.empty(0, dtype=np.bool_), level)


def _deviations(columns: Floats) -> Floats:
    """Return standard deviations; 1 if all columns are constant, and 0 for a constant one among others."""
    result = standardized(columns)
    return np.where(result.moving, result.scale, 0) if result.moving.any() else result.scale


def check_bootstrap(resamples: int, level: float) -> None:
    """Raise UserError unless there are at least two resamples and the level is a share."""
    if resamples < 2 or not 0 < level < 1:
        raise UserError(f"A bootstrap needs at least 2 resamples and 0 < level < 1; got {resamples} and {level}.")


def _correlations(covariance: Floats) -> Floats:
    """Return correlation matrices; 0 for a column that is constant in a resample."""
    deviation = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0))
    # Columns have deviation 1 (ranks 0.29) over all rows; what is left of it below 1e-7 is round-off.
    alive = deviation > 1e-7
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=alive)
    return np.asarray(covariance * inverse[:, :, None] * inverse[:, None, :])


def _mcc(covariance: Floats, k: int, spread: Floats) -> tuple[Floats, Floats]:
    strength = np.abs(_correlations(covariance)[:, k:, :k])
    per_latent = np.zeros(strength.shape[:2])
    for some, row in zip(strength, per_latent, strict=True):
        latents, codes = linear_sum_assignment(some, maximize=True)
        row[latents] = some[latents, codes]
    return per_latent.mean(axis=1), np.minimum(per_latent, 1)


def _explained(covariance: Floats, k: int) -> Floats:
    """Return R² (resamples, d) = r_iᵀ R⁻¹ r_i, from correlations R of the codes and r_i of codes with latent i."""
    correlation = _correlations(covariance)
    # Codes may be linearly dependent, in a resample of few different rows above all; a plain inverse would fail.
    inner = np.linalg.pinv(correlation[:, :k, :k], rcond=1e-10, hermitian=True)
    cross = correlation[:, :k, k:]
    return np.asarray(np.clip(np.einsum("bki,bkl,bli->bi", cross, inner, cross, optimize=True), 0, 1))


def _linear_r2(covariance: Floats, k: int, spread: Floats) -> tuple[Floats, Floats]:
    r2 = _explained(covariance, k)
    return r2.mean(axis=1), r2


def _affine_residual(covariance: Floats, k: int, spread: Floats) -> tuple[Floats, Floats]:
    missed = 1 - _explained(covariance, k)
    variance = np.diagonal(covariance, axis1=1, axis2=2)[:, k:] * np.square(spread[k:])
    return np.sqrt((missed * variance).sum(axis=1) / variance.sum(axis=1)), np.sqrt(missed)


def _orthogonal_residual(covariance: Floats, k: int, spread: Floats) -> tuple[Floats, Floats]:
    own = covariance * spread[:, None] * spread[None, :]
    energy = np.diagonal(own, axis1=1, axis2=2)
    singular = np.linalg.svd(own[:, :k, k:], compute_uv=False)
    bottom = energy[:, :k].sum(axis=1) * energy[:, k:].sum(axis=1)
    fitted = np.divide(np.square(singular.sum(axis=1)), bottom, out=np.zeros(len(own)), where=bottom > 0)
    return np.sqrt(np.maximum(1 - fitted, 0)), np.full((len(own), energy.shape[1] - k), np.nan)


STATISTICS: dict[str, Callable[[Floats, int, Floats], tuple[Floats, Floats]]] = {
    "linear_r2": _linear_r2,
    "affine_residual": _affine_residual,
    "orthogonal_residual": _orthogonal_residual,
    "mcc_pearson": _mcc,
    "mcc_spearman": _mcc,
}


def _interval(headline: Floats, per_latent: Floats, moving: Flags, level: float) -> Interval:
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(headline, tails)
    ends = np.full((2, moving.size), np.nan)
    ends[:, moving] = np.quantile(per_latent, tails, axis=0)
    return Interval(float(low), float(high), ends[0], ends[1])
