"""InfoMEC, IRS and SHD: closed forms, and what the public code gives for the same arrays.

The public values are from latent_quantization's infomec.py, disentanglement_lib 1.5 and cdt 0.6.0, run on these arrays.
"""

from typing import Any

import numpy as np
import pytest

from ident3d import metrics
from ident3d.errors import UserError


def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    z = rng.integers(0, [3, 5, 4], size=(500, 3))
    h = z @ rng.normal(size=(3, 4)) * [1, 2, 0.1, 1] + 0.3 * rng.normal(size=(500, 4))
    h[:, 0] = z[:, 1] ** 2
    return z, h


def grid(*levels: int) -> Any:
    """Every combination once, so that factors are exactly independent."""
    return np.stack(np.meshgrid(*map(np.arange, levels)), axis=-1).reshape(-1, len(levels))


@pytest.mark.parametrize(
    ("discrete", "expected"),
    [
        (False, (0.5297186208699075, 0.7509311974080813, 0.47546398693648273)),
        (True, (0.4684779798998183, 0.7768146638130777, 0.4348449548273134)),
    ],
)
def test_infomec_as_the_public_code(discrete: bool, expected: tuple[float, ...]) -> None:
    z, h = arrays()
    found = metrics.infomec(z, np.round(h) if discrete else h, discrete_codes=discrete)
    np.testing.assert_allclose((found.score, found.explicitness, found.compactness), expected, rtol=1e-4)
    information = [0.0, 0.6419196434383844, 0.0183163491446929, 0.10956466358041544]
    if not discrete:
        np.testing.assert_allclose(found.normalised_information[0], information, rtol=1e-6, atol=1e-9)


def test_infomec_of_codes_whose_shares_are_known() -> None:
    z = np.repeat(grid(2, 2), 25, axis=0)
    # Code 0 is both factors, code 1 the second alone: N = ((1, 0), (1, 1)).
    h = np.stack([2 * z[:, 0] + z[:, 1], z[:, 1]], axis=1)
    found = metrics.infomec(z, h, discrete_codes=True)
    np.testing.assert_allclose(found.normalised_information, [[1, 0], [1, 1]], atol=1e-12)
    # Shares 1/2 and 1 of two, rescaled so that an even share is 0.
    np.testing.assert_allclose(found.per_code, [0, 1], atol=1e-12)
    np.testing.assert_allclose(found.compactness_per_latent, [1, 0], atol=1e-12)
    assert found.score == pytest.approx(0.5)
    assert found.compactness == pytest.approx(0.5)
    assert found.explicitness > 0.99


def test_infomec_explicitness_is_the_explained_cross_entropy() -> None:
    # A binary code that is right in 3 of 4 rows: logistic regression finds p = 3/4, so L = H(1/4).
    z = np.tile([[0, 0], [1, 1], [0, 1], [1, 0]], (100, 1))
    h = z.copy()
    h[:100, 0] = 1 - h[:100, 0]
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    found = metrics.infomec(z, h, discrete_codes=True)
    assert found.per_latent[0] == pytest.approx(1 - entropy / np.log(2), abs=2e-3)


def test_infomec_leaves_out_what_does_not_move() -> None:
    rng = np.random.default_rng(0)
    z = rng.uniform(size=(600, 3))
    z[:, 2] = 0.5
    h = np.column_stack([z[:, 1], z[:, 0] ** 3, 0.005 * rng.normal(size=600)])
    found = metrics.infomec(z, h)
    assert found.active.tolist() == [True, True, False]
    assert np.isnan(found.per_code[2])
    assert np.isnan(found.per_latent[2])
    assert found.score > 0.9
    assert found.compactness > 0.9
    with pytest.raises(UserError, match="at least two"):
        metrics.infomec(z[:, :1], h)
    with pytest.raises(UserError, match="constant"):
        metrics.infomec(z, np.ones((600, 2)))
    assert np.isnan(metrics.infomec(z, h[:, :1]).compactness)


@pytest.mark.parametrize(
    ("quantile", "score", "per_code", "factor"),
    [
        (0.99, 0.7049632281837482, [1.0, 0.5070901241550619, 0.2609531864275002, 0.45441694916401343], [1, 1, 1, 1]),
        (1.0, 0.6910398843920266, [1.0, 0.49053008203100035, 0.20766257616424433, 0.4145841411195409], [1, 1, 1, 1]),
        (0.5, 0.8589260696349257, [1.0, 0.7175108021937125, 0.8099717511167117, 0.8243049119396159], [1, 0, 2, 1]),
    ],
)
def test_irs_as_the_public_code(quantile: float, score: float, per_code: list[float], factor: list[int]) -> None:
    found = metrics.irs(*arrays(), quantile=quantile)
    assert found.score == pytest.approx(score, rel=1e-12)
    np.testing.assert_allclose(found.per_code, per_code, rtol=1e-12)
    assert found.factor.tolist() == factor


def test_irs_of_outliers_is_below_0() -> None:
    h = np.array([1, 1, 1, -1, -1, -1, -1, 1])
    # D = 1.5 in both levels, and the code moves by 1.
    assert float(metrics.irs(np.repeat([0, 1], 4)[:, None], h[:, None], quantile=1)) == -0.5


def test_irs_of_a_sum_of_two_factors() -> None:
    z = grid(3, 3)
    # h = a z_0 + b z_1 moves by b at most while z_0 stays, and by a + b in all.
    h = np.stack([3 * z[:, 0] + z[:, 1], z[:, 1], np.ones(9)], axis=1)
    found = metrics.irs(z, h, quantile=1)
    np.testing.assert_allclose(found.matrix[:, :2], [[1 - 1 / 4, 0], [1 - 3 / 4, 1]], atol=1e-12)
    assert found.factor.tolist() == [0, 1, -1]
    assert found.score == pytest.approx((4 * 0.75 + 1 * 1) / 5)
    with pytest.raises(UserError, match="quantile"):
        metrics.irs(z, h, quantile=0)
    with pytest.raises(UserError, match="constant"):
        metrics.irs(z, np.ones((9, 2)))


def test_shd_as_the_public_code() -> None:
    rng = np.random.default_rng(0)
    for n, double, single in ((2, 2, 1), (5, 10, 7), (8, 28, 22), (12, 71, 54)):
        one, other = (np.where(np.eye(n), 0, rng.integers(0, 2, (n, n))) for _ in range(2))
        assert metrics.shd(one, other).score == single
        assert metrics.shd(one, other, double_turned=True).score == double
        assert metrics.shd(other, one).score == single


def test_shd_says_how_it_comes_about() -> None:
    chain, turned = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]), np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0]])
    assert metrics.shd(chain, chain).score == 0
    found = metrics.shd(chain, turned)
    assert (found.score, found.missing, found.extra, found.turned) == (1, 0, 0, 1)
    weights = np.array([[0, 0.05, -2], [0, 0, 0.9], [0, 0, 0]])
    found = metrics.shd(chain, weights, threshold=0.1)
    assert (found.score, found.missing, found.extra, found.turned) == (2, 1, 1, 0)
    model = metrics.shd(np.zeros((11, 11)), published())
    assert model.as_dict() == {"score": 10.0, "missing": 0, "extra": 10, "turned": 0}
    for bad, says in ((np.ones((2, 3)), "square"), (np.eye(3), "node 0 to itself"), (np.zeros((2, 2)), "3 nodes")):
        with pytest.raises(UserError, match=says):
            metrics.shd(chain, bad)
    with pytest.raises(UserError, match="threshold"):
        metrics.shd(chain, chain, threshold=-1)


def published() -> Any:
    from ident3d.latents import published_model

    return published_model().adjacency
