"""InfoMEC: modularity, explicitness and compactness from normalised information."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from ident3d.errors import UserError
from ident3d.metrics.factors import FACTOR_BINS, Kind, levels_of
from ident3d.metrics.information import mutual_information
from ident3d.metrics.inputs import Flags, Floats, Integers, mean_over_varying, pair, standardized
from ident3d.metrics.result import Score

NEIGHBOURS = 10
# A code that moves less than this share of the widest one counts as unused.
ACTIVE_SHARE = 1 / 20


@dataclass(frozen=True, eq=False)
class InfoMec(Score):
    """The headline is InfoM, modularity. `normalised_information` is (d, k), `active` the codes that count.

    `per_code` is NaN for a code that does not count, `compactness_per_latent` and `per_latent` (explicitness) NaN for a
    constant latent; `compactness` is NaN if a single code is active, which has nothing to share.
    """

    explicitness: float
    compactness: float
    per_latent: Floats
    per_code: Floats
    compactness_per_latent: Floats
    normalised_information: Floats
    active: Flags


def infomec(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    factor_bins: int = FACTOR_BINS,
    discrete_codes: bool = False,
    seed: int = 0,
) -> InfoMec:
    """Return InfoM, InfoE and InfoC from N_ij = I(z_i; h_j) / H(z_i).

    InfoM is the mean over active codes j of (max_i N_ij / Σ_i N_ij - 1/d) / (1 - 1/d), InfoC the mean over latents i
    of the same along j. InfoE is the mean over i of 1 - L_i / log(levels of z_i), L_i the cross-entropy in nats of
    multinomial logistic regression of z_i from all codes, on the fitted rows. M and C are in [0, 1], E at most 1.

    Continuous codes: I by the 10 nearest neighbours (Ross 2014), and a code is active if its range exceeds a twentieth
    of the widest one's. `discrete_codes`: I from counts, codes one-hot in the regression, each code active that varies.
    Continuous and periodic latents are cut into `factor_bins` levels.

    Conventions: an active code without any information counts 0 in InfoM, and a latent of which no code knows anything
    counts 0 in InfoC, where the reference gives NaN. Constant latents are left out.

    Reference: Hsu, Dorrell, Whittington, Wu, Finn, "Disentanglement via Latent Quantization", NeurIPS 2023.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        discrete_codes: Take each value of a code as a level of its own.
        seed: What breaks ties among neighbours.

    Returns:
        An `InfoMec`: modularity as the headline, `explicitness`, `compactness`, and the information (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> found = metrics.infomec(z, z, discrete_codes=True)
        >>> round(found.score, 1), round(found.explicitness, 1), round(found.compactness, 1)
        (1.0, 1.0, 1.0)
    """
    latents, codes = pair(z, h)
    levels = levels_of(latents, kinds, factor_bins)
    extent = np.ptp(codes, axis=0)
    active = extent > (0 if discrete_codes else ACTIVE_SHARE * extent.max())
    if not active.any():
        raise UserError("Every code is constant, so there is no information to share out.")
    code_levels = np.stack([np.unique(code, return_inverse=True)[1] for code in codes.T], axis=1).astype(np.int64)
    counted, entropy = mutual_information(code_levels if discrete_codes else np.zeros_like(code_levels), levels)
    moving = entropy > 0
    if moving.sum() < 2:
        raise UserError(f"InfoMEC compares latents; it needs at least two that vary, there are {moving.sum()}.")
    information = counted if discrete_codes else _by_neighbours(codes, levels, moving, seed)
    normalised = np.divide(information, entropy[:, None], out=np.zeros_like(information), where=moving[:, None])
    features = _one_hot(code_levels) if discrete_codes else standardized(codes).columns
    per_latent = np.array(
        [_explicitness(features, column) if m else np.nan for column, m in zip(levels.T, moving, strict=True)]
    )
    per_code, compactness = np.full(codes.shape[1], np.nan), np.full(len(moving), np.nan)
    shares = normalised[np.ix_(moving, active)]
    per_code[active] = _share_of_largest(shares.T)
    if active.sum() > 1:
        compactness[moving] = _share_of_largest(shares)
    mean_compactness = float(compactness[moving].mean())
    return InfoMec(
        float(per_code[active].mean()), mean_over_varying(per_latent), mean_compactness,
        per_latent, per_code, compactness, normalised, active,
    )  # fmt: skip


def _share_of_largest(shares: Floats) -> Floats:
    """Return (max / sum - 1/n) / (1 - 1/n) of each row of n shares; 0 for a row of zeros."""
    total, even = shares.sum(axis=1), 1 / shares.shape[1]
    largest = np.divide(shares.max(axis=1), total, out=np.full(len(total), even), where=total > 0)
    return np.asarray((largest - even) / (1 - even))


def _by_neighbours(codes: Floats, levels: Integers, moving: Flags, seed: int) -> Floats:
    information = np.zeros((levels.shape[1], codes.shape[1]))
    columns = standardized(codes).columns
    for i in np.flatnonzero(moving):
        information[i] = mutual_info_classif(
            columns, levels[:, i], discrete_features=False, n_neighbors=NEIGHBOURS, random_state=seed
        )
    return information


def _one_hot(code_levels: Integers) -> Floats:
    return np.hstack([np.eye(int(code.max()) + 1)[code] for code in code_levels.T])


def _explicitness(features: Floats, labels: Integers) -> float:
    """Return 1 - cross-entropy / log(levels). Balanced classes make the fit without codes predict every level alike."""
    # Without a penalty and with 100 steps, as in the reference: where codes separate the levels there is no optimum.
    model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, labels)
    return float(1 - log_loss(labels, model.predict_proba(features)) / np.log(model.classes_.size))
