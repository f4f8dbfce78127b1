"""The shape of a conditional p(h̃ | h), seen in many codes of one image's views: is it normal, has it one peak?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ident3d.errors import UserError
from ident3d.metrics.inputs import Flags, Floats, plain_array
from ident3d.metrics.result import Score

LEVEL = 0.05
FEWEST = 20
# Steps of the fit of two components, and how narrow one may become beside the whole.
STEPS, NARROWEST = 60, 1e-3


@dataclass(frozen=True, eq=False)
class ConditionalShape(Score):
    """Share of (image, code) whose codes are not normal, by a test at level .05: about .05 if they are.

    `not_normal` and `two_peaks` are the shares by code, over images; `width` is the mean standard deviation of a code
    over an image's views, and `across` that over images' means. A code that the views leave alone has NaN.
    """

    not_normal: Floats
    two_peaks: Floats
    width: Floats
    across: Floats


def conditional_shape(codes: ArrayLike) -> ConditionalShape:
    """Test each code of each image's views for normality, and for two components in place of one.

    Normality: the Shapiro-Wilk test. Two components: a mixture of two normal distributions (EM from the halves about
    the median) has a lower BIC than one, -2 log L + p log n with p = 5 against 2.

    Convention: the paper shows histograms alone; both figures are ours.

    Args:
        codes: Codes of views (images, views, d), at least 20 views of each image.

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
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise UserError("Codes of views have values that are not finite (NaN or infinity).")
    spread = values.std(1)
    # What views do not change has no distribution to test.
    moves = spread > 1e-9 * np.maximum(1, np.abs(values).max(1))
    rejected, bimodal = np.full(moves.shape, np.nan), np.full(moves.shape, np.nan)
    columns = values.transpose(0, 2, 1)[moves]
    if len(columns):
        rejected[moves] = [stats.shapiro(column).pvalue < LEVEL for column in columns]
        bimodal[moves] = two_components(columns)
    else:
        raise UserError("No code changes between the views of an image, so there is no conditional to look at.")
    known = moves.any(0)
    shares = [np.full(moves.shape[1], np.nan) for _ in range(2)]
    for share, found in zip(shares, (rejected, bimodal), strict=True):
        share[known] = np.nanmean(found[:, known], 0)
    return ConditionalShape(float(np.nanmean(rejected)), shares[0], shares[1], spread.mean(0), values.mean(1).std(0))


def two_components(columns: Floats) -> Flags:
    """Return for each row of values (columns, n) whether two normal components have a lower BIC than one."""
    n = columns.shape[1]
    x = (columns - columns.mean(1, keepdims=True)) / columns.std(1, keepdims=True)
    # The median parts the values; each half starts a component.
    upper = (x > np.median(x, 1, keepdims=True)).astype(np.float64)
    weight = np.stack([1 - upper, upper])
    total = np.zeros((len(x), n))
    for _ in range(STEPS):
        mass = np.maximum(weight.sum(2), 1e-9)
        centre = (weight * x).sum(2) / mass
        variance = np.maximum((weight * (x - centre[..., None]) ** 2).sum(2) / mass, NARROWEST)
        logs = np.log(mass / n)[..., None] - 0.5 * (
            np.log(2 * np.pi * variance)[..., None] + (x - centre[..., None]) ** 2 / variance[..., None]
        )
        total = np.logaddexp(*logs)
        weight = np.exp(logs - total)
    one = n * (np.log(2 * np.pi) + 1) + 2 * np.log(n)
    two: Flags = -2 * total.sum(1) + 5 * np.log(n) < one
    return two
