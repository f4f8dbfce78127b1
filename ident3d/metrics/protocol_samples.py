"""The scores of the SlowVAE code one by one: how images are drawn for each, and what is made of them."""

import warnings
from collections.abc import Callable
from math import prod
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from ident3d.metrics.correlation import Mcc, correlation_matrix, match_codes
from ident3d.metrics.dci_importance import dci
from ident3d.metrics.factors import Kind
from ident3d.metrics.factorvae import factor_vae_from_batches
from ident3d.metrics.information import mig, modularity
from ident3d.metrics.inputs import Floats, Integers, mean_over_varying, pair, varies
from ident3d.metrics.result import Score
from ident3d.metrics.sap_gap import sap_discrete

# What is fitted on and scored on, what MIG and modularity count, and what the codes are matched on.
FITTED, SCORED, COUNTED, MATCHED = 10_000, 5_000, 100_000, 10_000
# Images that share a factor; images of a batch, of which none is drawn twice; FactorVAE drops narrower codes.
TOGETHER, ENCODED, NARROW = 64, 16, 0.05


class Sample(NamedTuple):
    """What samples are drawn from: values and levels (n, d) and codes (n, k) of all images, and the rows to draw."""

    z: Floats
    levels: Integers
    h: Floats
    rows: Integers
    fraction: float
    generator: np.random.Generator

    @property
    def kinds(self) -> list[Kind]:
        return ["discrete"] * self.levels.shape[1]

    def batches(self, count: int, batch: int) -> Integers:
        """Return image numbers (count, batch) in random order; no image is twice in a batch."""
        batch = min(batch, len(self.rows))
        drawn = [self.generator.choice(len(self.rows), batch, replace=False) for _ in range(count)]
        return np.asarray(self.rows[np.array(drawn)])

    def images(self, papers: int) -> Integers:
        """Return the numbers of as many images as the paper drew, or of a fraction."""
        count = scaled(papers, self.fraction)
        return self.batches(-(-count // ENCODED), ENCODED).ravel()[:count]

    def sharing(self, papers: int, sides: int) -> tuple[Integers, list[Integers]]:
        """Return the factor (points,) that each point shares, and images (points, TOGETHER) of one or two sides.

        Of two sides, each image of the second has the value of its partner; of one side, all have that of the first.
        """
        sizes = self.levels.max(axis=0) + 1
        strides = np.array([prod(sizes[k + 1 :].tolist()) for k in range(len(sizes))])
        image = np.empty(len(self.levels), np.int64)
        image[self.levels @ strides] = np.arange(len(self.levels))
        choice = np.flatnonzero(sizes > 1)
        factor = choice[self.generator.integers(len(choice), size=scaled(papers, self.fraction))]
        drawn = [self.batches(len(factor), TOGETHER) for _ in range(sides)]
        level, partner = (self.levels[side, factor[:, None]] for side in (drawn[-1], drawn[0]))
        wanted = partner if sides == 2 else partner[:, :1]
        drawn[-1] = image[self.levels[drawn[-1]] @ strides + (wanted - level) * strides[factor][:, None]]
        return factor, drawn


def scaled(papers: int, fraction: float) -> int:
    """Return a share of the papers' sample count, but enough to fit on."""
    return max(2 * TOGETHER, round(papers * fraction))


def noise_generator(seed: int) -> np.random.Generator:
    """Return what draws the noise: apart from the generator that a user may have drawn the latents with."""
    return np.random.default_rng([seed, 1])


def mcc_with_noise(z: ArrayLike, h: ArrayLike, *, seed: int = 0) -> Mcc:
    """Return the Spearman MCC, (1/d) Σ_i |corr(z_i, h_π(i))|, with π matched on d latents and k - d columns of noise.

    Standard normal noise fills the latents up to as many columns as there are codes. All k columns are matched one to
    one with the codes so that the sum of |corr| is largest, and the mean is over the d latents. The noise takes part:
    π may differ a little from that of `mcc`. With d ≥ k it is `mcc` itself.

    Reference: the code of Klindt et al., "Towards Nonlinear Disentanglement in Natural Data with Temporal Sparse
    Coding", ICLR 2021.

    Args:
        z: True latents (N, d).
        h: Codes (N, k).
        seed: What draws the noise.

    Returns:
        An `Mcc`: the mean, the correlation matrix (d, k), and the code of each latent.

    Example:
        >>> import numpy as np
        >>> from ident3d import metrics
        >>> h = np.random.default_rng(0).uniform(size=(400, 5))
        >>> metrics.mcc_with_noise(np.exp(h[:, [3, 0]]), h).assignment.tolist()
        [3, 0]
    """
    latents, codes = pair(z, h)
    d = latents.shape[1]
    noise = noise_generator(seed).standard_normal((len(codes), max(0, codes.shape[1] - d)))
    moving = np.append(varies(latents), np.ones(noise.shape[1], np.bool_))
    found = match_codes(correlation_matrix(np.hstack([latents, noise]), codes, ranks=True), moving)
    per_latent, assignment = found.per_latent[:d], found.assignment[:d]
    matched = float(per_latent[assignment >= 0].mean())
    return Mcc(mean_over_varying(per_latent), per_latent, found.correlation[:d], assignment, matched)


def _beta_vae(s: Sample, seed: int) -> Score:
    factors, features = [], []
    for papers in (FITTED, SCORED):
        factor, (first, second) = s.sharing(papers, 2)
        # A thousand points at a time: the codes of all their images would take gigabytes.
        parts = zip(*(np.array_split(side, 1 + len(factor) // 1000) for side in (first, second)), strict=True)
        features.append(np.concatenate([np.abs(s.h[one] - s.h[other]).mean(axis=1) for one, other in parts]))
        factors.append(factor)
    # The library's defaults, also where they end before the optimum.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression().fit(features[0], factors[0])
    return Score(float(model.score(features[1], factors[1])))


def _factor_vae(s: Sample, seed: int) -> Score:
    codes = s.h[s.images(MATCHED)]
    if (codes.std(axis=0, ddof=1) < NARROW).all():
        return Score(0.0)
    votes = [s.sharing(papers, 1) for papers in (FITTED, SCORED)]
    fit, scored = ((s.h[batches], factor) for factor, (batches,) in votes)
    return factor_vae_from_batches(codes, fit, scored, threshold=NARROW)


def _halves(s: Sample) -> tuple[tuple[Integers, Floats], tuple[Integers, Floats]]:
    fit, scored = s.images(FITTED), s.images(SCORED)
    return (s.levels[fit], s.h[fit]), (s.levels[scored], s.h[scored])


def _sap(s: Sample, seed: int) -> Score:
    fit, scored = _halves(s)
    return sap_discrete(*fit, test=scored, kinds=s.kinds, seed=seed)


def _dci(s: Sample, seed: int) -> Score:
    fit, scored = _halves(s)
    return dci(*fit, test=scored, importance="boosting", kinds=s.kinds, seed=seed)


def _mig(s: Sample, seed: int) -> Score:
    some = s.images(COUNTED)
    return mig(s.levels[some], s.h[some], kinds=s.kinds)


def _modularity(s: Sample, seed: int) -> Score:
    some = s.images(COUNTED)
    return modularity(s.levels[some], s.h[some], kinds=s.kinds, count_constant=True)


def _mcc(s: Sample, seed: int) -> Score:
    some = s.images(MATCHED)
    return mcc_with_noise(s.z[some], s.h[some], seed=seed)


class Entry(NamedTuple):
    """How a score is computed, the papers' sample counts, and whether it needs listed values and a full grid."""

    compute: Callable[[Sample, int], Score]
    counts: tuple[int, ...]
    listed: bool = True
    grid: bool = False


SLOWVAE: Final = {
    "beta_vae": Entry(_beta_vae, (FITTED, SCORED), grid=True),
    "factor_vae": Entry(_factor_vae, (FITTED, SCORED), grid=True),
    "mig": Entry(_mig, (COUNTED,)),
    "dci": Entry(_dci, (FITTED, SCORED)),
    "modularity": Entry(_modularity, (COUNTED,)),
    "sap": Entry(_sap, (FITTED, SCORED)),
    "mcc": Entry(_mcc, (MATCHED,), listed=False),
}
