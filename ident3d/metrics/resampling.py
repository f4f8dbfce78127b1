"""Confidence intervals by the bootstrap: rows drawn with replacement, all resamples at once.

A resample of N rows is how often each row was drawn. Every score here is a function of weighted row means, so that
all resamples are one matrix product of the counts with per-row features, instead of a loop over copies of the data.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from ident3d.errors import UserError, check_known
from ident3d.metrics.inputs import Floats, Integers, check_rows, check_varies, pair, plain_array, standardized, varies

# memory of one step: counts of at most this many draws at a time
DRAWS_AT_ONCE = 4_000_000
ROWS_AT_ONCE = 16_384


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
    check_request(resamples, level)
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
    check_request(resamples, level)
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
    check_request(resamples, level)
    if labels.ndim != 1 or labels.shape != named.shape or labels.size == 0:
        raise UserError(f"True and predicted classes need one label per row; shapes {labels.shape}, {named.shape}.")
    right = np.asarray(labels == named, dtype=np.float64)[:, None]
    accuracy = np.concatenate(list(resampled_means(right, resamples, seed)))[:, 0]
    return _interval(accuracy, np.empty((resamples, 0)), np.empty(0, dtype=np.bool_), level)


def _deviations(columns: Floats) -> Floats:
    """Standard deviations, 1 where all columns are constant and 0 for a constant one among others."""
    result = standardized(columns)
    return np.where(result.moving, result.scale, 0) if result.moving.any() else result.scale


def check_request(resamples: int, level: float) -> None:
    if resamples < 2 or not 0 < level < 1:
        raise UserError(f"A bootstrap needs at least 2 resamples and 0 < level < 1; got {resamples} and {level}.")


def draw_counts(rows: int, resamples: int, seed: int, width: int = 1) -> Iterator[Integers]:
    """How often each row is drawn, (some resamples, rows) at a time; `width` is the memory wanted per draw."""
    generator = np.random.default_rng(seed)
    step = max(1, DRAWS_AT_ONCE // (rows * width))
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        # Each resample has a range of numbers to itself, so that one call counts the draws of all.
        draws = generator.integers(rows, size=(count, rows)) + rows * np.arange(count)[:, None]
        yield np.bincount(draws.ravel(), minlength=count * rows).reshape(count, rows)


def resampled_means(
    rows: Floats, resamples: int, seed: int, expand: Callable[[Floats], Floats] = lambda block: block
) -> Iterator[Floats]:
    """Means (some resamples, features) of the features that `expand` makes of each row."""
    for counts in draw_counts(len(rows), resamples, seed):
        total: Any = 0.0
        for start in range(0, len(rows), ROWS_AT_ONCE):
            # Products of all columns for all rows at once would need gigabytes.
            block = slice(start, start + ROWS_AT_ONCE)
            total = total + counts[:, block].astype(np.float64) @ expand(rows[block])
        yield np.asarray(total / len(rows))


def covariances(columns: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Covariance matrices (some resamples, p, p) of columns that are standardised over all rows."""
    p = columns.shape[1]
    # The matrices are symmetric: half of the products is enough.
    upper = np.triu_indices(p)
    for means in resampled_means(
        columns, resamples, seed, lambda block: np.hstack([block, block[:, upper[0]] * block[:, upper[1]]])
    ):
        first, second = means[:, :p], np.empty((len(means), p, p))
        second[:, upper[0], upper[1]] = second[:, upper[1], upper[0]] = means[:, p:]
        yield second - first[:, :, None] * first[:, None, :]


def rank_covariances(columns: Floats, resamples: int, seed: int) -> Iterator[Floats]:
    """Covariance matrices of the midranks of each resample.

    In the order of a column, the rank of a value is the number of draws below it plus half of those equal to it, so
    that running sums of the counts give every resample's ranks without sorting it.
    """
    n, p = columns.shape
    order = np.argsort(columns, axis=0, kind="stable")
    for counts in draw_counts(n, resamples, seed, width=p):
        ranks = np.empty((len(counts), n, p))
        for j in range(p):
            ordered = columns[order[:, j], j]
            # Equal values share the rank in the middle of their run; these are the ends of the runs.
            last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
            ends = np.cumsum(counts[:, order[:, j]], axis=1)[:, last]
            middle = (ends + np.hstack([np.zeros((len(counts), 1), dtype=np.int64), ends[:, :-1]])) / (2 * n) - 0.5
            ranks[:, order[:, j], j] = np.repeat(middle, np.diff(last, prepend=-1), axis=1)
        weighted = ranks * (counts / n)[:, :, None]
        mean = weighted.sum(axis=1)
        yield weighted.transpose(0, 2, 1) @ ranks - mean[:, :, None] * mean[:, None, :]


def _correlations(covariance: Floats) -> Floats:
    """Correlation matrices; 0 for a column that is constant in a resample."""
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
    """R² (resamples, d) = r_iᵀ R⁻¹ r_i, from the correlations R of the codes and r_i of codes with latent i."""
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


def _interval(headline: Floats, per_latent: Floats, moving: Any, level: float) -> Interval:
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(headline, tails)
    ends = np.full((2, moving.size), np.nan)
    ends[:, moving] = np.quantile(per_latent, tails, axis=0)
    return Interval(float(low), float(high), ends[0], ends[1])
