"""Scores from the mutual information of binned codes and factors: MIG and modularity."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr

from ident3d.errors import UserError
from ident3d.metrics.factors import CODE_BINS, FACTOR_BINS, Binning, Kind, bins_of, levels_of
from ident3d.metrics.inputs import Floats, Integers, lead_of_best, mean_over_varying, pair
from ident3d.metrics.result import Score


@dataclass(frozen=True, eq=False)
class Mig(Score):
    """Mutual information gap. `mutual_information` is (d, k) in nats, `per_latent` NaN for a constant factor."""

    per_latent: Floats
    mutual_information: Floats
    entropy: Floats


@dataclass(frozen=True, eq=False)
class Modularity(Score):
    """Mean modularity of the codes. `per_code` is NaN for a code that was left out, having no information at all.

    `mutual_information` is (d, k) in nats.
    """

    per_code: Floats
    mutual_information: Floats


def mig(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    bins: int = CODE_BINS,
    factor_bins: int = FACTOR_BINS,
    binning: Binning = "width",
) -> Mig:
    """Return the mutual information gap: (1/d) Σ_i (I(z_i; h_first) - I(z_i; h_second)) / H(z_i).

    First and second are the codes with the largest and second-largest plug-in mutual information (0 if there is one
    code only). In [0, 1]; 1 if each factor is in exactly one code, whatever the map. Codes are cut into `bins` bins,
    continuous and periodic factors into `factor_bins` (see `levels_of`), discrete ones keep their values.

    Conventions: the published numbers use 20 bins of equal width, as here; Chen et al. integrate a posterior instead.
    The plug-in estimate is biased upwards by about (bins - 1)(levels - 1)/2N nats, alike for both codes of a gap.

    References: Chen, Li, Grosse, Duvenaud, "Isolating Sources of Disentanglement in VAEs", NeurIPS 2018;
    Locatello et al., "Challenging Common Assumptions", ICML 2019 (binning).

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        bins: The bins that a code is cut into.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        binning: "width" for bins of equal width, "mass" for bins of equally many rows.

    Returns:
        A `Mig`: the mean gap, that of each latent, and the mutual information (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> round(float(metrics.mig(z, z)), 1), metrics.mig(z, z).mutual_information.argmax(axis=1).tolist()
        (1.0, [0, 1, 2])
    """
    information, entropy = _information(z, h, kinds, bins, factor_bins, binning)
    gap = lead_of_best(information)
    # Information is at most the entropy: this makes factors with many levels and with few comparable.
    per_latent = np.divide(gap, entropy, out=np.full_like(gap, np.nan), where=entropy > 0)
    return Mig(mean_over_varying(per_latent), per_latent, information, entropy)


def modularity(
    z: ArrayLike,
    h: ArrayLike,
    *,
    kinds: Sequence[Kind] | None = None,
    bins: int = CODE_BINS,
    factor_bins: int = FACTOR_BINS,
    binning: Binning = "width",
    count_constant: bool = False,
) -> Modularity:
    """Return the mean over codes j of 1 - (Σ_i m_ij² - max_i m_ij²) / ((d - 1) max_i m_ij²), m mutual information.

    In [0, 1]; 1 if every code is informative about one factor only (several codes may share a factor).

    Conventions: a code without any mutual information, such as a constant one, is left out of the mean, as it is about
    no factor; the reference scores it 0, which `count_constant=True` does. A code that is nearly dead still counts
    fully, as in the reference. Constant factors are left out. Bins as for `mig`.

    Reference: Ridgeway and Mozer, "Learning Deep Disentangled Embeddings with the F-Statistic Loss", NeurIPS 2018.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        kinds: The kind of each latent, d of them: "continuous", "discrete" or the period as a number. By default
            whole numbers of at most 20 different values are discrete.
        bins: The bins that a code is cut into.
        factor_bins: The levels that a continuous or periodic latent is cut into.
        binning: "width" for bins of equal width, "mass" for bins of equally many rows.
        count_constant: Count a code without any mutual information as 0.

    Returns:
        A `Modularity`: the mean, that of each code (k,), and the mutual information (d, k).

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> z = np.random.default_rng(0).integers(4, size=(400, 3))
        >>> round(float(metrics.modularity(z, z)), 2)
        1.0
    """
    information, entropy = _information(z, h, kinds, bins, factor_bins, binning)
    # No code is about a constant factor; counting it would make every code look more modular.
    squared = np.square(information[entropy > 0])
    factors = len(squared)
    if factors < 2:
        raise UserError(f"Modularity compares factors; it needs at least two that vary, there are {factors}.")
    largest = squared.max(axis=0)
    surplus = (squared.sum(axis=0) - largest) / (factors - 1)
    informative = largest > 0
    missing = 0.0 if count_constant else np.nan
    ratio = np.divide(surplus, largest, out=np.zeros_like(largest), where=informative)
    per_code = np.where(informative, 1 - ratio, missing)
    if not informative.any() and not count_constant:
        raise UserError("No code has any mutual information with a factor, so modularity is not defined.")
    return Modularity(float(np.nanmean(per_code)), per_code, information)


def mutual_information(codes: Integers, levels: Integers) -> tuple[Floats, Floats]:
    """Return plug-in mutual information (d, k) of binned codes and levels, and the entropy (d,) of factors, in nats.

    I = Σ_ab p_ab log p_ab / (p_a p_b) from the joint histogram. One pass per code counts its joints with all factors.
    """
    rows, d = levels.shape
    height, width = int(codes.max()) + 1, int(levels.max()) + 1
    # Every (factor, level, bin) has a cell: one bincount per code gives its joint histogram with all factors.
    offset = np.arange(d) * (width * height)
    cells = levels * height + offset
    information = np.empty((d, codes.shape[1]))
    entropy = np.array([entr(np.bincount(column) / rows).sum() for column in levels.T])
    for j, code in enumerate(codes.T):
        joint = np.bincount((cells + code[:, None]).ravel(), minlength=d * width * height).reshape(d, width, height)
        probability = joint / rows
        expected = probability.sum(axis=2, keepdims=True) * probability.sum(axis=1, keepdims=True)
        information[:, j] = rel_entr(probability, expected).sum(axis=(1, 2))
    # Independent and constant columns leave round-off, which modularity would divide by.
    information[information < 1e-12] = 0
    return information, entropy


def _information(
    z: ArrayLike, h: ArrayLike, kinds: Sequence[Kind] | None, bins: int, factor_bins: int, binning: Binning
) -> tuple[Floats, Floats]:
    latents, codes = pair(z, h)
    return mutual_information(bins_of(codes, bins, binning), levels_of(latents, kinds, factor_bins, binning))
