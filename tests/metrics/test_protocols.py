"""Scores by another paper's protocol: each against its definition, written down plainly, and its traps."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from ident3d import UserError, metrics
from ident3d.metrics.protocol_samples import SLOWVAE, Sample, noise_generator

SIZES = (3, 6, 5, 4)
Z = np.stack(np.unravel_index(np.arange(360), SIZES), axis=1)
NOISE = np.random.default_rng(0).normal(size=(360, 6))
# two factors in a code each, the others mixed, a nearly dead code and one of noise
H = np.column_stack([2 * Z[:, 1], -Z[:, 2] / 3, Z @ [1, 0, 0.2, 1], Z @ [1, 0.5, 0, -1], 0.01 * Z[:, 3], NOISE[:, 0]])
H = H + 0.1 * NOISE * [1, 1, 1, 1, 0, 0]


def sample(h: np.ndarray = H, fraction: float = 0.2, seed: int = 0) -> Sample:
    return Sample(Z.astype(float), Z, h, np.arange(len(Z)), fraction, np.random.default_rng(seed))


@pytest.mark.parametrize("sides", [1, 2])
def test_points_share_one_factor_and_nothing_else(sides: int) -> None:
    factor, drawn = sample().sharing(10_000, sides)
    assert factor.shape == (2000,)
    assert stats.chisquare(np.bincount(factor, minlength=4)).pvalue > 1e-4
    first, second = Z[drawn[0]], Z[drawn[-1]]
    own = np.arange(4)[None, None] == factor[:, None, None]
    if sides == 2:
        assert (first == second)[np.broadcast_to(own, first.shape)].all()
        equal = (first == second)[~np.broadcast_to(own, first.shape)]
        assert 0.2 < equal.mean() < 0.25  # the mean of 1/n over the other factors is 0.2375, a little less by chance
    else:
        assert (first == first[:, :1])[np.broadcast_to(own, first.shape)].all()
    # also where a batch is all images, two sides are not the same images in the same order
    few = Sample(Z[:60].astype(float), Z[:60], H[:60], np.arange(60), 1.0, np.random.default_rng(0)).batches(2, 64)
    assert (few[0] == few[1]).mean() < 0.2
    # before the factor is shared, no image is drawn twice
    assert all(len(set(row)) == 64 for row in sample().batches(50, 64).tolist())


def test_beta_vae_is_its_definition() -> None:
    found, again, points = SLOWVAE["beta_vae"].compute(sample(fraction=0.02), 0), sample(fraction=0.02), []
    for count in (10_000, 5_000):
        factor, (first, second) = again.sharing(count, 2)
        means = [
            np.mean([abs(H[i] - H[j]) for i, j in zip(*pair, strict=True)], 0)
            for pair in zip(first, second, strict=True)
        ]
        points.append((means, factor))
    assert float(found) == LogisticRegression(max_iter=100).fit(*points[0]).score(*points[1])
    assert 0.8 < float(found) < 1
    assert metrics.score_by_protocol("slowvae", Z, NOISE, ["beta_vae"], fraction=0.2).scores["beta_vae"].score < 0.4


def test_factor_vae_drops_narrow_codes_before_the_vote() -> None:
    found = metrics.score_by_protocol("slowvae", Z, H, ["factor_vae"], fraction=0.1).scores["factor_vae"]
    assert isinstance(found, metrics.FactorVae)
    assert found.active.tolist() == [True, True, True, True, False, True]
    # the dead code would have told the last factor perfectly, with a ratio of 0
    assert not found.votes[:, 4].any()
    assert found.votes.sum() == 1000
    nothing = metrics.score_by_protocol("slowvae", Z, 0.01 * H / H.std(axis=0), ["factor_vae"], fraction=0.1)
    assert float(nothing.scores["factor_vae"]) == 0


def test_scores_that_count_are_those_of_this_package_with_the_papers_choices() -> None:
    h = np.column_stack([H, np.ones(360)])
    found = metrics.score_by_protocol("slowvae", Z, h, ["mig", "modularity", "sap", "dci"], fraction=0.03)
    kinds = ["discrete"] * 4
    assert float(found.scores["mig"]) == pytest.approx(float(metrics.mig(Z, h, kinds=kinds)), abs=0.03)
    # a constant code counts 0
    counted = metrics.modularity(Z, h, kinds=kinds, count_constant=True)
    assert float(found.scores["modularity"]) == pytest.approx(float(counted), abs=0.03)
    assert float(counted) < float(metrics.modularity(Z, h, kinds=kinds)) - 0.05
    dci = found.scores["dci"]
    assert isinstance(dci, metrics.Dci)
    importance = np.abs(dci.importance.T)  # codes × factors
    share = importance / (importance.sum(axis=1, keepdims=True) + 1e-11)
    per_code = 1 - stats.entropy(share + 1e-11, base=4, axis=1)
    assert dci.score == pytest.approx((per_code * importance.sum(axis=1) / importance.sum()).sum(), abs=1e-6)
    assert found.settings["samples"] == {"mig": "3,000", "dci": "300 + 150", "modularity": "3,000", "sap": "300 + 150"}


def test_noise_takes_part_in_the_matching_of_mcc() -> None:
    differing = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        z, h = rng.normal(size=(12, 2)), rng.normal(size=(12, 4))
        found = metrics.mcc_with_noise(z, h, seed=seed)
        padded = np.hstack([z, noise_generator(seed).standard_normal((12, 2))])
        matrix = np.abs(stats.spearmanr(padded, h)[0][:4, 4:])
        best = max(permutations(range(4)), key=lambda p: sum(matrix[i, j] for i, j in enumerate(p)))
        assert found.assignment.tolist() == list(best[:2])
        assert found.score == pytest.approx(np.mean([matrix[0, best[0]], matrix[1, best[1]]]))
        differing += found.score < metrics.mcc(z, h, correlation="spearman").score - 1e-9
    assert differing > 3
    three = np.random.default_rng(0).normal(size=(50, 3))
    plain = metrics.mcc(three, three[:, :2], correlation="spearman")
    assert float(metrics.mcc_with_noise(three, three[:, :2])) == float(plain)


def test_continuous_factors_and_rows_leave_mcc() -> None:
    z = np.random.default_rng(0).normal(size=(600, 3))
    found = metrics.score_by_protocol("slowvae", z, z, rows=np.arange(300), fraction=0.1)
    assert list(found.scores) == ["mcc"]
    assert set(found.left_out) == {"beta_vae", "factor_vae", "mig", "dci", "modularity", "sap"}
    assert "600 values" in found.left_out["mig"]
    assert "mcc" in found.table()
    assert found.as_dict()["scores"]["mcc"]["score"] == pytest.approx(1)
    drawn = Sample(z, z.astype(int), z, np.arange(300), 1.0, np.random.default_rng(0)).images(10_000)
    assert drawn.max() == 299
    assert all(len(set(batch)) == 16 for batch in drawn.reshape(-1, 16).tolist())


def test_each_score_is_the_same_whichever_others_are_taken() -> None:
    both = metrics.score_by_protocol("slowvae", Z, H, ["mig", "mcc"], fraction=0.01)
    alone = metrics.score_by_protocol("slowvae", Z, H, ["mcc"], fraction=0.01)
    assert float(both.scores["mcc"]) == float(alone.scores["mcc"])
    assert float(metrics.score_by_protocol("slowvae", Z, H, ["mcc"], fraction=0.01, seed=1).scores["mcc"]) != float(
        alone.scores["mcc"]
    )


def test_mistakes_get_one_sentence() -> None:
    for z, given, fact in (
        (Z, {"metrics": ["migg"]}, "Did you mean 'mig'"),
        (Z, {"fraction": 0.0}, "fraction"),
        (Z, {"rows": [400, 1]}, "360 images"),
        (Z[:-1], {"metrics": ["beta_vae"]}, "beta_vae.*combination"),
        (NOISE, {"metrics": ["mig"]}, "mig.*continuous"),
    ):
        with pytest.raises(UserError, match=fact):
            metrics.score_by_protocol("slowvae", z, H[: len(z)], **given)
    with pytest.raises(UserError, match="slowvae"):
        metrics.score_by_protocol("slowvea", Z, H)
