"""The BetaVAE score: can a linear classifier tell which factor two batches share?"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.metrics.classifiers import logistic
from ident3d.metrics.factors import FACTOR_BINS, Kind, levels_of
from ident3d.metrics.inputs import Floats, Integers, class_labels, pair, plain_array, varies
from ident3d.metrics.result import Score
from ident3d.metrics.shared_factor_batches import shared_rows


@dataclass(frozen=True, eq=False)
class BetaVae(Score):
    """Accuracy on the evaluation points; `fit_score` is that on the fitted points, `chance` is one over the factors.

    The features are the mean absolute code differences of the points, (points, k).
    """

    fit_score: float
    chance: float
    fit_features: Floats = field(repr=False)
    features: Floats = field(repr=False)


def beta_vae_score(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    factor_bins: int = FACTOR_BINS,
    batch: int = 64,
    points: int = 10_000,
    evaluation_points: int = 5_000,
    seed: int = 0,
) -> BetaVae:
    """Return the accuracy of naming the factor i that `batch` pairs of rows share, from mean |h_m - h_n| of the pairs.

    Each pair shares its own value of factor i, and the feature is averaged over the pairs; the classifier is logistic
    regression on raw features. In [0, 1], chance 1/d. Continuous and periodic factors are cut into `factor_bins`
    levels, and "share" means the same level. Constant factors take no part.

    Conventions: raw features make the penalty, and so the score, depend on the units of the codes, as in the
    reference. The reference draws fresh images whose other factors are independent; here pairs come from the given
    rows. `beta_vae_from_pairs` scores pairs that were drawn elsewhere.

    Reference: Higgins et al., "beta-VAE", ICLR 2017; disentanglement_lib's `compute_beta_vae_sklearn`.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        batch: The pairs that a point is averaged over.
        points: The points that the classifier is fitted on.
        evaluation_points: The points that it is scored on.
        seed: What draws the pairs.

    Returns:
        A `BetaVae`: the accuracy on the evaluation points, and `chance`.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> metrics.beta_vae_score(z, z, points=300, evaluation_points=200).score
        1.0
    """
    latents, codes = pair(z, h)
    levels = levels_of(latents, kinds, factor_bins)
    factors = np.flatnonzero(varies(levels.astype(np.float64)))
    if factors.size < 2:
        raise UserError(f"The BetaVAE score needs at least two factors that vary; there are {factors.size}.")
    if min(batch, points, evaluation_points) < 1:
        raise UserError("batch, points and evaluation_points must be at least 1.")
    generator = np.random.default_rng(seed)
    labels = factors[generator.integers(factors.size, size=points + evaluation_points)]
    features = np.empty((labels.size, codes.shape[1]))
    for factor in factors.tolist():
        # A million pairs at a time: all codes of all pairs at once would need gigabytes.
        for some in np.array_split(np.flatnonzero(labels == factor), 1 + labels.size * batch // 1_000_000):
            first, second = shared_rows(levels, factor, some.size * batch, generator)
            distance = np.abs(codes[first] - codes[second])
            features[some] = distance.reshape(some.size, batch, -1).mean(axis=1)
    return _score_features(features[:points], labels[:points], features[points:], labels[points:], factors.size)


def beta_vae_from_pairs(
    fit: tuple[ArrayLike, ArrayLike, ArrayLike], evaluation: tuple[ArrayLike, ArrayLike, ArrayLike]
) -> BetaVae:
    """Return the BetaVAE score of pairs that were drawn elsewhere.

    Factors are numbers or names, the same in both parts.

    Args:
        fit: Codes of one side (points, pairs, k), codes of the other side of the same shape, and the factor
            (points,) that the pairs of a point share.
        evaluation: The same for the points to score.

    Returns:
        A `BetaVae`: the accuracy on the evaluation points, and `chance`.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> shared = np.arange(200) % 2  # of two factors; the codes are the factors
        >>> first, second = np.random.default_rng(0).uniform(size=(2, 200, 64, 2))
        >>> second[np.arange(200), :, shared] = first[np.arange(200), :, shared]
        >>> half = slice(0, 100), slice(100, 200)
        >>> metrics.beta_vae_from_pairs(*((first[part], second[part], shared[part]) for part in half)).score
        1.0
    """
    fit_features, fit_labels = _features(*fit)
    features, labels = _features(*evaluation)
    if fit_features.shape[1] != features.shape[1]:
        raise UserError("The pairs to fit and to evaluate must have the same number of codes.")
    # NumPy would turn the numbers into words as it joins the two, and no factor would match.
    if (fit_labels.dtype.kind in "US") != (labels.dtype.kind in "US"):
        raise UserError("The shared factors to fit and to evaluate must both be names or both be numbers.")
    # Both parts are numbered together, so that a factor has the same number in each.
    index, _ = class_labels(np.concatenate([fit_labels, labels]), "labels")
    fit_index, index = np.split(index, [len(fit_labels)])
    return _score_features(fit_features, fit_index, features, index, np.unique(fit_index).size)


def _score_features(
    fit_features: Floats, fit_labels: Integers, features: Floats, labels: Integers, factors: int
) -> BetaVae:
    if np.unique(fit_labels).size < 2:
        raise UserError("The fitted points share a single factor, so there is nothing to classify.")
    model = logistic(fit_features, fit_labels)
    accuracy, fit_accuracy = model.score(features, labels), model.score(fit_features, fit_labels)
    return BetaVae(float(accuracy), float(fit_accuracy), 1 / factors, fit_features, features)


def _features(first: ArrayLike, second: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    one, other = (plain_array(codes, "pairs").astype(np.float64) for codes in (first, second))
    index, values = class_labels(labels, "labels")
    if one.ndim != 3 or one.shape != other.shape or len(one) != len(index):
        raise UserError(
            f"Pairs must be two arrays (points, pairs, codes) and one label per point; "
            f"they have shapes {one.shape}, {other.shape} and {index.shape}."
        )
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise UserError("The pairs have values that are not finite (NaN or infinity).")
    return np.abs(one - other).mean(axis=1), values[index]
