"""The shape of a conditional p(h̃ | h), seen in many codes of one image's views: is it normal, has it one peak?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ident3d.errors import UserError
from ident3d.metrics.inputs import Flags, Floats, plain_array
from ident3d.metrics.result import Score

LEVEL = 0.05
# Views of an image. The p-value of the Shapiro-Wilk test is not reliable for more than 5,000.
FEWEST, MOST = 20, 5_000
# Steps of the fit of two components, and how narrow one may become beside the whole.
STEPS, NARROWEST = 60, 1e-3
# The least that each component holds (a few outliers are no peak), and points at which the density is looked at.
LEAST, POINTS = 0.05, 300
# Two components make a dip of .6 even of a uniform sample, and less of few values by chance.
UNIFORM_DIP, CHANCE = 0.6, 10.0
# Columns that are fitted at once, so that memory stays bounded.
AT_ONCE = 500


@dataclass(frozen=True, eq=False)
class ConditionalShape(Score):
    """Share of (image, code) whose codes are not normal, by a test at level .05: about .05 if they are.

    `not_normal` and `two_peaks` are the shares by code, over images; a skewed, flat or heavy-tailed code is not normal
    and has one peak. `width` is the mean standard deviation of a code
    over an image's views, and `across` that over images' means. A code that the views leave alone has NaN.
    """

    not_normal: Floats
    two_peaks: Floats
    width: Floats
    across: Floats


def conditional_shape(codes: ArrayLike) -> ConditionalShape:
    """Test each code of each image's views for normality, and for two peaks in place of one.

    Normality: the Shapiro-Wilk test. Two peaks: a mixture f of two normal distributions (EM from the halves about the
    median) is fitted to the n views, and all of this holds:

    - BIC = -2 log L + p log n is lower for two components (p = 5) than for one (p = 2),
    - each component holds at least .05 of the views,
    - dip < .6 exp(-10/√n), where dip = min over t of f(t) / min(max over s ≤ t of f(s), max over s ≥ t of f(s)), with s
      and t between both means: the lowest density between the peaks over the lower peak, and 1 if f has one peak.

    The BIC alone says two for any sample that is not normal, of however many peaks. The bound is .34 for 300 views, and
    .6 for very many, which is the dip that two components make of a uniform sample. Of uniform, exponential, Laplace,
    log-normal and Student t samples about 3 % are taken for two peaks at 40 views, 1.5 % at 100, and less than 1 % from
    300 on. Two equal peaks 4 standard deviations apart are found in 80 % of samples of 300 views, 5 apart in all.

    Convention: the paper shows histograms alone; both figures are ours.

    Args:
        codes: Codes of views (images, views, d), 20 to 5,000 views of each image.

    Returns:
        A `ConditionalShape`.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> rng = np.random.default_rng(0)
        >>> normal = rng.normal(size=(40, 200, 1))
        >>> two_peaks = normal + 6 * rng.integers(2, size=normal.shape)
        >>> found = metrics.conditional_shape(np.concatenate([normal, two_peaks], axis=2))
        >>> found.not_normal.round().tolist(), found.two_peaks.round().tolist()
        ([0.0, 1.0], [0.0, 1.0])
    """
    array = plain_array(codes, "codes")
    if array.ndim != 3 or array.shape[1] < FEWEST or 0 in array.shape or array.dtype.kind not in "fiu":
        raise UserError(f"Codes of views have the shape (images, at least {FEWEST} views, codes), not {array.shape}.")
    if array.shape[1] > MOST:
        raise UserError(f"The test of normality holds for at most {MOST:,} views of an image, not {array.shape[1]:,}.")
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise UserError("Codes of views have values that are not finite (NaN or infinity).")
    spread = values.std(1)
    # What views do not change has no distribution to test.
    moves = spread > 1e-9 * np.maximum(1, np.abs(values).max(1))
    rejected, peaked = np.full(moves.shape, np.nan), np.full(moves.shape, np.nan)
    columns = values.transpose(0, 2, 1)[moves]
    if len(columns):
        rejected[moves] = [stats.shapiro(column).pvalue < LEVEL for column in columns]
        parts = np.array_split(columns, -(-len(columns) // AT_ONCE))
        peaked[moves] = np.concatenate([two_peaked(part) for part in parts])
    else:
        raise UserError("No code changes between the views of an image, so there is no conditional to look at.")
    known = moves.any(0)
    shares = [np.full(moves.shape[1], np.nan) for _ in range(2)]
    for share, found in zip(shares, (rejected, peaked), strict=True):
        share[known] = np.nanmean(found[:, known], 0)
    return ConditionalShape(float(np.nanmean(rejected)), shares[0], shares[1], spread.mean(0), values.mean(1).std(0))


def two_peaked(columns: Floats) -> Flags:
    """Return for each row of values (columns, n) whether it has two peaks, as `conditional_shape` says."""
    n = columns.shape[1]
    x = (columns - columns.mean(1, keepdims=True)) / columns.std(1, keepdims=True)
    # The median parts the values; each half starts a component.
    upper = (x > np.median(x, 1, keepdims=True)).astype(np.float64)
    weight = np.stack([1 - upper, upper])
    for _ in range(STEPS):
        mass = np.maximum(weight.sum(2), 1e-9)
        centre = (weight * x).sum(2) / mass
        variance = np.maximum((weight * (x - centre[..., None]) ** 2).sum(2) / mass, NARROWEST)
        logs = log_components(x[None], mass / n, centre, variance)
        total = np.logaddexp(*logs)
        weight = np.exp(logs - total)
    one = n * (np.log(2 * np.pi) + 1) + 2 * np.log(n)
    lower_bic = -2 * total.sum(1) + 5 * np.log(n) < one
    deep = dips(mass / n, centre, variance) < UNIFORM_DIP * np.exp(-CHANCE / np.sqrt(n))
    found: Flags = lower_bic & (mass.min(0) >= LEAST * n) & deep
    return found


def dips(share: Floats, centre: Floats, variance: Floats) -> Floats:
    """Return the dip of mixtures, all (2, columns): the density between both peaks over the lower one, 1 for one peak.

    All peaks of a mixture of two normal distributions lie between their means.
    """
    t = centre[0] + (centre[1] - centre[0]) * np.linspace(0, 1, POINTS)[:, None]
    density = np.exp(np.logaddexp(*log_components(t.T[None], share, centre, variance)))
    left = np.maximum.accumulate(density, 1)
    right = np.maximum.accumulate(density[:, ::-1], 1)[:, ::-1]
    found: Floats = (density / np.minimum(left, right)).min(1)
    return found


def log_components(x: Floats, share: Floats, centre: Floats, variance: Floats) -> Floats:
    """Return the log density of each component, weighted by its share: x (1, columns, n) → (2, columns, n)."""
    log_share = np.log(share) - 0.5 * np.log(2 * np.pi * variance)
    logs: Floats = log_share[..., None] - 0.5 * (x - centre[..., None]) ** 2 / variance[..., None]
    return logs
