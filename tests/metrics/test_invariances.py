"""The laws each score must obey: what it does not see, what it does, and its bounds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ident3d import metrics

Arrays = tuple[Any, Any, np.random.Generator]

# deadline off: the machine may be busy with other work
law = settings(max_examples=25, deadline=None)


@st.composite
def mixtures(draw: st.DrawFn, least: int = 1, most: int = 5) -> Arrays:
    """Latents, codes that mix them with noise, and the generator they came from."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, k = draw(st.integers(least, most)), draw(st.integers(least, most))
    n = draw(st.integers(30, 200))
    z = rng.uniform(-1, 1, size=(n, d))
    noise = draw(st.sampled_from([0.0, 0.1, 3.0]))
    return z, z @ rng.normal(size=(d, k)) + noise * rng.normal(size=(n, k)), rng


def invertible(rng: np.random.Generator, width: int) -> Any:
    left, right = (np.linalg.qr(rng.normal(size=(width, width)))[0] for _ in range(2))
    return left * np.exp(rng.uniform(-3, 3, size=width)) @ right


@law
@given(mixtures())
def test_linear_r2_sees_no_affine_map_of_codes_or_of_a_latent(data: Arrays) -> None:
    z, h, rng = data
    moved = h @ invertible(rng, h.shape[1]) + rng.normal(size=h.shape[1])
    rescaled = z * rng.uniform(0.1, 10, size=z.shape[1]) - 7
    before = metrics.linear_r2(z, h).per_latent
    np.testing.assert_allclose(metrics.linear_r2(rescaled, moved).per_latent, before, atol=1e-8)
    assert (before >= -1e-12).all()
    assert (before <= 1).all()


@law
@given(mixtures())
def test_residuals_see_no_map_of_their_family(data: Arrays) -> None:
    z, h, rng = data
    moved = h @ invertible(rng, h.shape[1]) + 1
    assert float(metrics.affine_residual(z, moved)) == pytest.approx(float(metrics.affine_residual(z, h)), abs=1e-7)
    turn = np.linalg.qr(rng.normal(size=(h.shape[1], h.shape[1])))[0]
    before = float(metrics.orthogonal_residual(z, h))
    assert float(metrics.orthogonal_residual(z, 3 * h @ turn - 2)) == pytest.approx(before, abs=1e-7)
    assert 0 <= before <= 1 + 1e-12


@law
@given(mixtures())
def test_residual_maps_give_the_residual(data: Arrays) -> None:
    z, h, _ = data
    fit = metrics.affine_residual(z, h)
    missed = z - h @ fit.weights.T - fit.offset
    assert fit.score == pytest.approx(np.linalg.norm(missed) / np.linalg.norm(z - z.mean(axis=0)), abs=1e-9)
    if z.shape[1] == h.shape[1]:
        turn = metrics.orthogonal_residual(z, h)
        missed = z - h @ turn.weights.T - turn.offset
        assert turn.score == pytest.approx(np.linalg.norm(missed) / np.linalg.norm(z - z.mean(axis=0)), abs=1e-7)
        assert fit.score <= turn.score + 1e-7


def test_orthogonal_fit_without_scale_or_centre() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert float(metrics.orthogonal_residual(z, z @ turn, scale=False, center=False)) < 1e-12
    assert float(metrics.orthogonal_residual(z, 2 * z @ turn, scale=False, center=False)) == pytest.approx(1)
    assert float(metrics.orthogonal_residual(z, 2 * z @ turn, center=False)) < 1e-12
    assert float(metrics.orthogonal_residual(z, z @ turn + 1, center=False)) > 0.1


def test_orthogonal_fit_counts_surplus_codes() -> None:
    rng = np.random.default_rng(1)
    z, extra = rng.normal(size=(100, 2)), rng.normal(size=(100, 1))
    assert float(metrics.orthogonal_residual(z, np.hstack([z, 0 * extra]))) < 1e-12
    assert float(metrics.orthogonal_residual(z, np.hstack([z, extra]))) > 0.3


@law
@given(mixtures())
def test_mcc_sees_no_permutation_sign_scale_or_shift(data: Arrays) -> None:
    z, h, rng = data
    order = rng.permutation(h.shape[1])
    factors = rng.choice([-1, 1], size=h.shape[1]) * rng.uniform(0.1, 10, size=h.shape[1])
    before, after = metrics.mcc(z, h), metrics.mcc(z, (h * factors + 5)[:, order])
    assert after.score == pytest.approx(before.score, abs=1e-9)
    assert 0 <= before.score <= 1
    assert np.abs(before.correlation).max() <= 1


@law
@given(mixtures())
def test_spearman_mcc_sees_no_monotone_map(data: Arrays) -> None:
    z, h, rng = data
    maps: list[Callable[[Any], Any]] = [np.exp, np.arctan, lambda x: -(x**3), lambda x: -x]
    bent = np.column_stack([maps[rng.integers(4)](column / 3) for column in h.T])
    before = metrics.mcc(z, h, correlation="spearman").score
    assert metrics.mcc(z, bent, correlation="spearman").score == pytest.approx(before, abs=1e-9)


@law
@given(mixtures(least=2))
def test_more_codes_never_lower_r2_or_mcc(data: Arrays) -> None:
    z, h, _ = data
    fewer = h[:, :-1]
    assert metrics.linear_r2(z, h).score >= metrics.linear_r2(z, fewer).score - 1e-9
    assert metrics.mcc(z, h).score >= metrics.mcc(z, fewer).score - 1e-9


@law
@given(mixtures(least=2))
def test_duplicate_and_constant_codes_change_nothing_linear(data: Arrays) -> None:
    z, h, rng = data
    padded = np.hstack([h, h[:, :1], np.full((len(h), 1), 0.1)])
    np.testing.assert_allclose(metrics.linear_r2(z, padded).per_latent, metrics.linear_r2(z, h).per_latent, atol=1e-8)
    constant = np.hstack([h, np.full((len(h), 1), rng.normal())])
    np.testing.assert_allclose(metrics.mcc(z, constant).score, metrics.mcc(z, h).score, atol=1e-12)
    np.testing.assert_allclose(metrics.sap(z, constant).score, metrics.sap(z, h).score, atol=1e-12)
    np.testing.assert_allclose(metrics.mig(z, constant).score, metrics.mig(z, h).score, atol=1e-12)


@law
@given(mixtures(least=2))
def test_mcc_matches_one_to_one_and_counts_missing_codes_as_zero(data: Arrays) -> None:
    z, h, _ = data
    result = metrics.mcc(z, h)
    used = result.assignment[result.assignment >= 0]
    assert len(used) == len(set(used)) == min(z.shape[1], h.shape[1])
    assert (result.per_latent[result.assignment < 0] == 0).all()
    assert result.matched == pytest.approx(result.score * z.shape[1] / len(used))


def test_rotation_breaks_mcc_but_not_r2() -> None:
    rng = np.random.default_rng(2)
    z = rng.uniform(size=(500, 2))
    angle = np.pi / 4
    h = z @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert metrics.linear_r2(z, h).score == pytest.approx(1)
    assert float(metrics.orthogonal_residual(z, h)) < 1e-12
    assert metrics.mcc(z, h).score == pytest.approx(np.sqrt(0.5), abs=0.05)
    assert metrics.mig(z, h).score < 0.2
    assert metrics.sap(z, h).score < 0.1
    assert metrics.dci(z, h).score < 0.6


def test_only_the_kernel_mcc_follows_a_map_that_is_not_monotone() -> None:
    h = np.random.default_rng(3).uniform(-1, 1, size=(1000, 2))
    z = np.column_stack([np.cos(4 * h[:, 1]), h[:, 0] ** 2])
    assert metrics.mcc(z, h).score < 0.4
    assert metrics.mcc(z, h, correlation="spearman").score < 0.4
    result = metrics.mcc(z, h, correlation="kernel")
    assert result.score > 0.99
    assert result.assignment.tolist() == [1, 0]


def test_kernel_ridge_follows_a_smooth_map_where_linear_r2_does_not() -> None:
    h = np.random.default_rng(4).uniform(-1, 1, size=(600, 2))
    z = np.column_stack([h[:, 0] ** 2, h[:, 0] * h[:, 1]])
    assert metrics.linear_r2(z, h, split=True).score < 0.1
    assert metrics.kernel_ridge_r2(z, h).score > 0.98


@law
@given(mixtures(least=2))
def test_counting_scores_see_no_permutation_and_stay_in_bounds(data: Arrays) -> None:
    z, h, rng = data
    order = rng.permutation(h.shape[1])
    for score in (metrics.mig, metrics.modularity, metrics.sap):
        before = score(z, h).score
        assert 0 <= before <= 1
        assert score(z, h[:, order]).score == pytest.approx(before, abs=1e-9)


def test_every_matrix_has_a_row_per_latent_and_a_column_per_code() -> None:
    rng = np.random.default_rng(13)
    z = rng.integers(4, size=(400, 3)).astype(float)
    h = np.column_stack([z[:, 0], rng.normal(size=(400, 3)), z[:, 2]])  # code 0 is latent 0, code 4 is latent 2
    tables = {
        "mcc": metrics.mcc(z, h).correlation,
        "mig": metrics.mig(z, h).mutual_information,
        "modularity": metrics.modularity(z, h).mutual_information,
        "sap": metrics.sap(z, h).matrix,
        "sap_discrete": metrics.sap_discrete(z, h).matrix,
        "dci": metrics.dci(z, h).importance,
        "affine": metrics.affine_residual(z, h).weights,
        "votes": metrics.factor_vae_score(z, h, batch=16, votes=400, evaluation_votes=200).votes,
    }
    for name, table in tables.items():
        assert table.shape == (3, 5), name
        assert np.abs(table)[[0, 2]].argmax(axis=1).tolist() == [0, 4], name


@law
@given(mixtures(least=2))
def test_equal_mass_bins_see_no_increasing_map(data: Arrays) -> None:
    z, h, _ = data
    before = metrics.mig(z, h, binning="mass")
    after = metrics.mig(np.arctan(z), np.exp(h / 4), binning="mass")
    np.testing.assert_allclose(after.mutual_information, before.mutual_information, atol=1e-9)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_voting_scores_see_no_scale_or_permutation_of_codes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.integers(4, size=(400, 3))
    h = z @ rng.normal(size=(3, 3)) + 0.1 * rng.normal(size=(400, 3))
    options: dict[str, Any] = {"batch": 16, "seed": 1}
    before = metrics.factor_vae_score(z, h, votes=300, evaluation_votes=200, **options)
    moved = metrics.factor_vae_score(z, (h * [1, -20, 0.3])[:, [2, 0, 1]], votes=300, evaluation_votes=200, **options)
    assert moved.score == before.score
    assert (moved.votes == before.votes[:, [2, 0, 1]]).all()
    pairs = metrics.beta_vae_score(z, h, points=300, evaluation_points=200, **options)
    shuffled = metrics.beta_vae_score(z, -h[:, [2, 0, 1]] + 4, points=300, evaluation_points=200, **options)
    assert shuffled.score == pytest.approx(pairs.score, abs=0.05)


def test_perfect_codes_score_one() -> None:
    rng = np.random.default_rng(5)
    z = rng.integers(5, size=(1500, 3))
    h = -2.0 * z[:, [1, 2, 0]] + 1
    for score in (metrics.linear_r2, metrics.mcc, metrics.mig, metrics.sap, metrics.modularity, metrics.explicitness):
        assert float(score(z, h)) > 0.97, score
    assert float(metrics.affine_residual(z, h)) < 1e-12
    assert float(metrics.orthogonal_residual(z, h)) < 0.1
    assert metrics.beta_vae_score(z, h, points=500, evaluation_points=300).score == 1
    assert metrics.factor_vae_score(z, h, votes=500, evaluation_votes=300).score == 1
    for importance in ("permutation", "forest"):
        result = metrics.dci(z, h, importance=importance)
        assert min(result.score, result.completeness, result.informativeness) > 0.97
    assert result.importance.argmax(axis=1).tolist() == [2, 0, 1]


def test_scores_of_independent_codes_are_at_chance() -> None:
    rng = np.random.default_rng(6)
    n, d = 4000, 4
    z, h = rng.integers(5, size=(n, d)), rng.normal(size=(n, d))
    assert metrics.linear_r2(z, h).score == pytest.approx(d / n, abs=1e-3)
    assert abs(metrics.linear_r2(z, h, split=True).score) < 0.01
    assert abs(metrics.kernel_ridge_r2(z, h).score) < 0.05
    for kind in ("pearson", "spearman", "kernel"):
        assert metrics.mcc(z, h, correlation=kind).score < 0.08
    assert float(metrics.affine_residual(z, h)) > 0.99
    assert float(metrics.orthogonal_residual(z, h)) > 0.99
    assert metrics.mig(z, h).score < 0.01
    assert metrics.sap(z, h).score < 0.01
    assert metrics.sap_discrete(z, h).score < 0.05
    assert metrics.explicitness(z, h).score == pytest.approx(0.5, abs=0.03)
    dci = metrics.dci(z, h)
    assert dci.informativeness == pytest.approx(0.2, abs=0.03)
    assert dci.score == dci.completeness == 0
    accuracy = metrics.class_accuracy(z[:, 0], h)
    assert accuracy.score == pytest.approx(accuracy.chance, abs=0.03)
    assert metrics.beta_vae_score(z, h, points=2000, evaluation_points=2000).score == pytest.approx(1 / d, abs=0.06)
    assert metrics.factor_vae_score(z, h, votes=2000, evaluation_votes=2000).score == pytest.approx(1 / d, abs=0.06)


@pytest.mark.parametrize("levels", [None, 2, 5])
def test_dci_of_independent_codes_is_zero_for_small_samples_too(levels: int | None) -> None:
    rng = np.random.default_rng(10)
    for _ in range(3):
        z, h = rng.uniform(size=(2, 300, 5))
        result = metrics.dci(z if levels is None else np.floor(z * levels), h)
        assert result.score == result.completeness == 0


def test_dci_gives_a_factor_that_no_code_predicts_no_importance() -> None:
    rng = np.random.default_rng(11)
    z, noise = rng.uniform(size=(2, 500, 3))
    result = metrics.dci(z, np.column_stack([z[:, 0], noise]))
    assert result.importance[0, 0] > 1
    assert not result.importance[1:].any()
    assert (result.informativeness_per_latent[1:] < 0.05).all()


def test_dci_of_codes_that_mix_every_factor_evenly_is_near_zero_and_of_near_perfect_codes_near_one() -> None:
    rng = np.random.default_rng(12)
    z = rng.uniform(size=(1000, 2))
    mixed = metrics.dci(z, z @ np.array([[1.0, 1.0], [1.0, -1.0]]))
    assert (mixed.importance > 0).all()
    assert max(mixed.score, mixed.completeness) < 0.02
    near = metrics.dci(z, z[:, ::-1] + 0.02 * rng.normal(size=z.shape))
    assert min(near.score, near.completeness, near.informativeness) > 0.97


def test_a_second_copy_of_a_code_lowers_completeness_not_informativeness() -> None:
    rng = np.random.default_rng(7)
    z = rng.uniform(size=(1000, 2))
    once, twice = metrics.dci(z, z, importance="boosting"), metrics.dci(z, z[:, [0, 1, 0]], importance="boosting")
    assert twice.informativeness == pytest.approx(once.informativeness, abs=0.02)
    assert twice.score > 0.95
    assert metrics.mig(z, z[:, [0, 1, 0]]).per_latent[0] == pytest.approx(0, abs=1e-12)
    assert metrics.modularity(z, z[:, [0, 1, 0]]).score == pytest.approx(metrics.modularity(z, z).score, abs=0.01)


@law
@given(mixtures())
def test_float32_is_scored_as_its_float64_values(data: Arrays) -> None:
    z, h = (array.astype(np.float32) for array in data[:2])
    for score in (metrics.linear_r2, metrics.affine_residual, metrics.mcc, metrics.mig, metrics.sap):
        assert score(z, h).score == score(z.astype(np.float64), h.astype(np.float64)).score
        assert isinstance(float(score(z, h)), float)


def test_a_single_latent() -> None:
    rng = np.random.default_rng(8)
    z = rng.uniform(size=300)
    h = np.column_stack([rng.uniform(size=300), z**3])
    result = metrics.mcc(z, h, correlation="spearman")
    assert result.score == pytest.approx(1)
    assert result.assignment.tolist() == [1]
    assert metrics.linear_r2(z, h).per_latent.shape == (1,)
    assert metrics.mig(z, h).score > 0.5
    assert metrics.sap(z, h).score > 0.7


@pytest.mark.parametrize(("unit", "offset"), [(1e-100, 0.0), (1e100, 0.0), (1.0, 1e7)])
def test_units_and_offsets_do_not_matter(unit: float, offset: float) -> None:
    rng = np.random.default_rng(9)
    z = rng.uniform(size=(200, 3))
    h = z @ rng.normal(size=(3, 3)) + 0.1 * rng.normal(size=(200, 3))
    scores: list[Callable[[Any, Any], object]] = [
        *(metrics.linear_r2, metrics.affine_residual, metrics.orthogonal_residual, metrics.mcc, metrics.mig),
        *(metrics.kernel_ridge_r2, metrics.modularity, metrics.sap, metrics.explicitness, metrics.dci),
        lambda z, h: metrics.mcc(z, h, correlation="kernel"),
        lambda z, h: metrics.bootstrap(z, h, ["affine_residual"], resamples=20)["affine_residual"].low,
        lambda z, h: metrics.bootstrap(z, h, ["orthogonal_residual"], resamples=20)["orthogonal_residual"].low,
    ]
    for score in scores:
        moved: Any = score(z / unit + offset, h * unit + offset)
        plain: Any = score(z, h)
        near = 1e-3 if score is metrics.dci else 1e-5  # trees round to float32
        assert float(moved) == pytest.approx(float(plain), abs=near), score
