"""The FactorVAE score: does the code that varies least in a batch tell which factor was held fixed?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError
from ident3d.metrics.factors import FACTOR_BINS, Kind, levels_of
from ident3d.metrics.inputs import Flags, Floats, Integers, matrix, pair, plain_array, varies
from ident3d.metrics.result import Score
from ident3d.metrics.shared_factor_batches import batch_of_level


@dataclass(frozen=True, eq=False)
class FactorVae(Score):
    """Accuracy on the evaluation votes; `fit_score` is that on the votes that made the classifier.

    `votes` and `evaluation_votes` count (factors, k) how often a code was the least varying one; `voted` is that code
    for every vote, fitted ones first. `active` marks the codes that took part. All count among all codes.
    """

    fit_score: float
    votes: Integers
    evaluation_votes: Integers
    global_variance: Floats
    active: Flags
    voted: Integers = field(repr=False)


def factor_vae_score(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    factor_bins: int = FACTOR_BINS,
    batch: int = 64,
    votes: int = 10_000,
    evaluation_votes: int = 5_000,
    threshold: float = 0.0,
    seed: int = 0,
) -> FactorVae:
    """Return the accuracy of naming the factor that a batch shares from the code with the smallest relative variance.

    A vote is (argmin_j Var_batch(h_j) / Var(h_j), i) with ddof 1 variances; each code is given the factor that most
    of the fitted votes name (the first one on ties), and the other votes are scored. In [0, 1]. Continuous and
    periodic factors are cut into `factor_bins` levels, so that the batch shares a bin and not a value. Constant
    factors take no part.

    Convention: codes with a standard deviation below `threshold` are dropped; constant ones always are. The default 0
    is the reference function's and independent of units, its published study uses 0.05, which means something for
    codes with a unit-variance prior. The reference reports the number of all codes as active, here `active` is right.

    Reference: Kim and Mnih, "Disentangling by Factorising", ICML 2018; disentanglement_lib's `compute_factor_vae`.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        batch: The rows that a vote looks at.
        votes: The votes that make the classifier.
        evaluation_votes: The votes that it is scored on.
        threshold: Codes with a smaller standard deviation take no part.
        seed: What draws the batches.

    Returns:
        A `FactorVae`: the accuracy on the evaluation votes, and the votes (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> metrics.factor_vae_score(z, z, votes=300, evaluation_votes=200).score
        1.0
    """
    latents, codes = pair(z, h)
    levels = levels_of(latents, kinds, factor_bins)
    factors = np.flatnonzero(varies(levels.astype(np.float64)))
    if factors.size < 2:
        raise UserError(f"The FactorVAE score needs at least two factors that vary; there are {factors.size}.")
    if batch < 2 or min(votes, evaluation_votes) < 1:
        raise UserError("batch must be at least 2, votes and evaluation_votes at least 1.")
    generator = np.random.default_rng(seed)
    labels = factors[generator.integers(factors.size, size=votes + evaluation_votes)]
    variance = np.empty((labels.size, codes.shape[1]))
    for factor in factors.tolist():
        mine = np.flatnonzero(labels == factor)
        rows = batch_of_level(levels, factor, mine.size, batch, generator)
        # A sixteenth at a time bounds the memory: a batch holds the codes of all its rows.
        for some, part in zip(np.array_split(mine, 16), np.array_split(rows, 16), strict=True):
            variance[some] = codes[part].var(axis=1, ddof=1)
    return _score_votes(codes, variance, labels, votes, latents.shape[1], threshold)


def factor_vae_from_batches(
    variance_codes: ArrayLike,
    fit: tuple[ArrayLike, ArrayLike],
    evaluation: tuple[ArrayLike, ArrayLike],
    *,
    threshold: float = 0.0,
) -> FactorVae:
    """Return the FactorVAE score of drawn batches: (codes (votes, batch, k), shared factor) to fit and to evaluate.

    `variance_codes` (rows, k) are the codes of independent samples, for the global variances.

    Args:
        variance_codes: Codes of independent samples (rows, k).
        fit: Codes (votes, batch, k) and the factor (votes,) that the rows of a batch share.
        evaluation: The same for the votes to score.
        threshold: Codes with a smaller standard deviation take no part.

    Returns:
        A `FactorVae`: the accuracy on the evaluation votes, and the votes (factors, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> codes, shared = np.random.default_rng(0).uniform(size=(200, 64, 2)), np.arange(200) % 2
        >>> codes[np.arange(200), :, shared] = 0.5  # the codes are the factors
        >>> half = slice(0, 100), slice(100, 200)
        >>> metrics.factor_vae_from_batches(codes[:, 0], *((codes[part], shared[part]) for part in half)).score
        1.0
    """
    codes = matrix(variance_codes, "variance codes")
    batches, labels = zip(*(_batches(*part, width=codes.shape[1]) for part in (fit, evaluation)), strict=True)
    variance = np.concatenate([part.var(axis=1, ddof=1) for part in batches])
    both = np.concatenate(labels)
    return _score_votes(codes, variance, both, len(labels[0]), int(both.max()) + 1, threshold)


def _score_votes(
    codes: Floats, variance: Floats, labels: Integers, fitted: int, factors: int, threshold: float
) -> FactorVae:
    global_variance = codes.var(axis=0, ddof=1)
    active = varies(codes) & (np.sqrt(global_variance) >= threshold)
    if not active.any():
        raise UserError(f"No code has a standard deviation of at least {threshold}, so there is nothing to vote on.")
    # Dropped codes get an infinite ratio, so that none of them is ever the least varying.
    ratio = np.divide(variance, global_variance, out=np.full_like(variance, np.inf), where=active)
    voted = ratio.argmin(axis=1)
    votes, evaluation_votes = np.zeros((2, factors, codes.shape[1]), dtype=np.int64)
    np.add.at(votes, (labels[:fitted], voted[:fitted]), 1)
    np.add.at(evaluation_votes, (labels[fitted:], voted[fitted:]), 1)
    named = votes.argmax(axis=0)
    right = named[voted] == labels
    accuracy, fit_accuracy = float(right[fitted:].mean()), float(right[:fitted].mean())
    return FactorVae(accuracy, fit_accuracy, votes, evaluation_votes, global_variance, active, voted.astype(np.int64))


def _batches(codes: ArrayLike, labels: ArrayLike, width: int) -> tuple[Floats, Integers]:
    batches = plain_array(codes, "batches").astype(np.float64)
    factors = plain_array(labels, "labels")
    if batches.ndim != 3 or batches.shape[1] < 2 or batches.shape[2] != width or len(batches) == 0:
        raise UserError(f"Batches must have shape (votes, batch of at least 2, {width}); they have {batches.shape}.")
    if factors.shape != batches.shape[:1] or factors.dtype.kind not in "iu" or factors.min() < 0:
        raise UserError("Each batch needs the index of the factor that it shares, 0 or above.")
    if not np.isfinite(batches).all():
        raise UserError("The batches have values that are not finite (NaN or infinity).")
    return batches, factors.astype(np.int64)
