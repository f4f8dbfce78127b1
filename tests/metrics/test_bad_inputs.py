"""Mistakes end with one sentence, and odd columns with a documented value."""

from typing import Any

import numpy as np
import pytest

from ident3d import metrics
from ident3d.errors import UserError

RNG = np.random.default_rng(0)
Z = RNG.uniform(size=(60, 3))
H = Z @ RNG.normal(size=(3, 3))
TWO_ARRAY_SCORES = [
    metrics.linear_r2,
    metrics.affine_residual,
    metrics.orthogonal_residual,
    metrics.mcc,
    metrics.kernel_ridge_r2,
    metrics.mig,
    metrics.modularity,
    metrics.sap,
    metrics.sap_discrete,
    metrics.explicitness,
    metrics.dci,
    metrics.beta_vae_score,
    metrics.factor_vae_score,
    metrics.infomec,
    metrics.irs,
    metrics.score,
]


@pytest.mark.parametrize("score", TWO_ARRAY_SCORES)
def test_values_that_are_not_finite(score: Any) -> None:
    for bad in (np.nan, np.inf):
        h = H.copy()
        h[3, 1] = bad
        with pytest.raises(UserError, match=r"codes h.*\[1\]"):
            score(Z, h)
        with pytest.raises(UserError, match="latents z has values"):
            score(h, Z)


@pytest.mark.parametrize("score", TWO_ARRAY_SCORES)
def test_shapes_that_do_not_fit(score: Any) -> None:
    with pytest.raises(UserError, match=r"60 .*59"):
        score(Z, H[:-1])
    with pytest.raises(UserError, match=r"shape \(samples, dimensions\)"):
        score(Z, H[:, :, None])
    with pytest.raises(UserError, match=r"shape \(samples, dimensions\)"):
        score(Z, H[:, :0])


@pytest.mark.parametrize("score", TWO_ARRAY_SCORES)
def test_latents_that_are_all_constant(score: Any) -> None:
    with pytest.raises(UserError, match=r"constant|vary"):
        score(np.full((60, 3), 0.1), H)


def test_things_that_are_no_numbers() -> None:
    with pytest.raises(UserError, match="real numbers"):
        metrics.mcc(np.array([["a"], ["b"]]), np.zeros((2, 1)))
    with pytest.raises(UserError, match="real numbers"):
        metrics.mcc(Z.astype(complex), H)
    with pytest.raises(UserError, match="Python objects"):
        metrics.mcc(np.array([[1], [None]], dtype=object), np.zeros((2, 1)))
    with pytest.raises(UserError, match="read as an array"):
        metrics.mcc([[1.0], [1.0, 2.0]], np.zeros((2, 1)))
    with pytest.raises(UserError, match="masked"):
        metrics.mcc(np.ma.masked_less(Z, 0.5), H)  # type: ignore[no-untyped-call]
    with pytest.raises(UserError, match="at least two rows"):
        metrics.mcc([[1.0]], [[1.0]])


def test_a_constant_latent_is_left_out_of_the_headline() -> None:
    z = np.column_stack([Z, np.full(60, 0.1)])
    for score in (metrics.linear_r2, metrics.mcc, metrics.mig, metrics.sap, metrics.explicitness, metrics.dci):
        result: Any = score(z, H)
        per_latent = getattr(result, "per_latent", None)
        if per_latent is None:
            per_latent = result.informativeness_per_latent
        assert np.isnan(per_latent).tolist() == [False, False, False, True], score
        assert float(result) == pytest.approx(float(score(Z, H)), abs=1e-9), score
    assert metrics.mcc(z, H).assignment[3] == -1
    assert metrics.modularity(z, H).score == pytest.approx(metrics.modularity(Z, H).score)


def test_codes_that_are_all_constant_know_nothing() -> None:
    h = np.full((60, 3), 0.1)
    assert float(metrics.linear_r2(Z, h)) == pytest.approx(0, abs=1e-12)
    assert float(metrics.mcc(Z, h)) == 0
    assert float(metrics.mcc(Z, h, correlation="kernel")) == 0
    assert float(metrics.mig(Z, h)) == 0
    assert float(metrics.sap(Z, h)) == 0
    assert float(metrics.dci(Z, h)) == 0
    assert float(metrics.orthogonal_residual(Z, h)) == pytest.approx(1)
    with pytest.raises(UserError, match="No code has"):
        metrics.modularity(Z, h)
    with pytest.raises(UserError, match="nothing to vote on"):
        metrics.factor_vae_score(Z, h)


def test_fewer_rows_than_an_exact_fit_needs() -> None:
    z, h = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 5))
    for score in (metrics.linear_r2, metrics.affine_residual, metrics.bootstrap):
        with pytest.raises(UserError, match="more than 6 rows"):
            score(z, h)
    assert np.isfinite(metrics.linear_r2(z, h, split=True).score)
    with pytest.raises(UserError, match="at least four rows"):
        metrics.linear_r2(z[:3], h[:3], split=True)


def test_tensors_with_a_gradient_are_read() -> None:
    torch = pytest.importorskip("torch")
    z, h = torch.tensor(Z), torch.tensor(H, requires_grad=True)
    assert metrics.mcc(z, h).score == metrics.mcc(Z, H).score
    assert metrics.mcc(z, h.bfloat16()).score == metrics.mcc(z, h.bfloat16().float()).score


def test_a_path_is_no_array() -> None:
    with pytest.raises(UserError, match=r"codes h .* path 'h\.npy'"):
        metrics.linear_r2(Z, "h.npy")


def test_options_that_do_not_exist() -> None:
    wrong: Any = "kendall"
    with pytest.raises(UserError, match=r"correlation .*pearson"):
        metrics.mcc(Z, H, correlation=wrong)
    with pytest.raises(UserError, match=r"importance .*permutation"):
        metrics.dci(Z, H, importance=wrong)
    with pytest.raises(UserError, match="kernel"):
        metrics.kernel_ridge_r2(Z, H, kernel=wrong)
    with pytest.raises(UserError, match=r"regressor .*kernel"):
        metrics.block_identifiability(Z, H, blocks={"a": [0]}, regressor=wrong)
    with pytest.raises(UserError, match=r"convention .*fisher-lee"):
        metrics.circular_correlation(Z, H, period=1, convention=wrong)
    with pytest.raises(UserError, match="binning"):
        metrics.mig(Z, H, binning=wrong)


def test_options_out_of_range() -> None:
    for wrong in ([0.0], [1.0, np.nan], []):
        with pytest.raises(UserError, match="alphas must hold"):
            metrics.kernel_ridge_r2(Z, H, alphas=wrong)
        with pytest.raises(UserError, match="gammas must hold"):
            metrics.kernel_ridge_r2(Z, H, gammas=wrong)
    with pytest.raises(UserError, match="folds need"):
        metrics.kernel_ridge_r2(Z, H, folds=40)
    with pytest.raises(UserError, match="max_rows"):
        metrics.kernel_ridge_r2(Z, H, max_rows=2)
    with pytest.raises(UserError, match="Importances"):
        metrics.concentration([[1.0], [2.0]])
    with pytest.raises(UserError, match="Importances"):
        metrics.concentration([[1.0, -1.0]])
    with pytest.raises(UserError, match="at least two bins"):
        metrics.mig(Z, H, bins=1)
    with pytest.raises(UserError, match="A kind is"):
        metrics.mig(Z, H, kinds=["continuous", "discrete", -1.0])
    with pytest.raises(UserError, match="each of the 3 latents"):
        metrics.mig(Z, H, kinds=["continuous"])
    with pytest.raises(UserError, match="A period is"):
        metrics.periodic_r2(Z, H, period=0)
    with pytest.raises(UserError, match="between 0 and 2"):
        metrics.block_identifiability(Z, H, blocks={"content": [0, 3]})
    with pytest.raises(UserError, match="at least one block"):
        metrics.block_identifiability(Z, H, blocks={})
    with pytest.raises(UserError, match="at least 2 resamples"):
        metrics.bootstrap(Z, H, resamples=1)
    with pytest.raises(UserError, match="0 < level < 1"):
        metrics.bootstrap(Z, H, level=95)
    with pytest.raises(UserError, match=r"bootstrapped .*'mig'"):
        metrics.bootstrap(Z, H, ["mig"])
    with pytest.raises(UserError, match="same columns"):
        metrics.linear_r2(Z, H, test=(Z, H[:, :2]))
    with pytest.raises(UserError, match="needs no correction"):
        metrics.linear_r2(Z, H, split=True).adjusted()
    with pytest.raises(UserError, match="codes, latents"):
        metrics.linear_r2(Z, H).adjusted("latent")  # type: ignore[arg-type]


def test_classes_that_cannot_be_learnt() -> None:
    with pytest.raises(UserError, match="single class"):
        metrics.class_accuracy(np.zeros(60, dtype=int), H)
    with pytest.raises(UserError, match="one label per row"):
        metrics.class_accuracy(Z, H)
    with pytest.raises(UserError, match="59 rows"):
        metrics.class_accuracy(np.arange(59), H)
    with pytest.raises(UserError, match="kind of class"):
        metrics.class_accuracy(np.arange(60) % 2, H, test=(np.array(["a"] * 60), H))


def test_batches_of_the_wrong_shape() -> None:
    points, labels = np.zeros((5, 4, 2)), np.array([0, 1, 0, 1, 0])
    with pytest.raises(UserError, match=r"arrays \(points, pairs, codes\)"):
        metrics.beta_vae_from_pairs((points, points[:, :3], labels), (points, points, labels))
    with pytest.raises(UserError, match="share a single factor"):
        metrics.beta_vae_from_pairs((points, points, 0 * labels), (points, points, labels))
    with pytest.raises(UserError, match="Batches must have shape"):
        metrics.factor_vae_from_batches(H, (points, labels), (points, labels))
    with pytest.raises(UserError, match="index of the factor"):
        metrics.factor_vae_from_batches(H[:, :2], (points, labels - 1), (points, labels))


def test_factors_without_two_rows_of_a_level() -> None:
    with pytest.raises(UserError, match=r"\bfactor 0"):
        metrics.beta_vae_score(Z, H, kinds=["discrete"] * 3)


def test_factors_named_in_one_part_of_the_pairs_and_numbered_in_the_other() -> None:
    codes = RNG.normal(size=(4, 8, 2))
    named, numbered = (codes, codes + 1, ["a", "b", "a", "b"]), (codes, codes + 1, [0, 1, 0, 1])
    with pytest.raises(UserError, match=r"names or .*numbers"):
        metrics.beta_vae_from_pairs(named, numbered)
