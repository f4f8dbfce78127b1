"""All resamples at once give what a loop over resampled copies gives."""

from typing import Any

import numpy as np
import pytest

from ident3d import metrics
from ident3d.metrics.intervals import STATISTICS
from ident3d.metrics.resampling import DRAWS_AT_ONCE, draw_counts


def data(n: int, k: int, ties: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(n + k)
    z = rng.uniform(size=(n, 3))
    h = z @ rng.normal(size=(3, k)) + 0.3 * rng.normal(size=(n, k))
    return (np.round(z, 1), np.round(h, 1)) if ties else (z, h)


def by_copies(name: str, z: Any, h: Any) -> tuple[float, Any]:
    if name == "linear_r2":
        r2 = metrics.linear_r2(z, h)
        return r2.score, r2.per_latent
    if name.startswith("mcc"):
        kind: Any = name.removeprefix("mcc_")
        result = metrics.mcc(z, h, correlation=kind)
        return result.score, result.per_latent
    fit = metrics.affine_residual(z, h) if name == "affine_residual" else metrics.orthogonal_residual(z, h)
    return fit.score, fit.per_latent


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", list(STATISTICS))
def test_equals_a_loop_over_resampled_copies(name: str, ties: bool, k: int) -> None:
    z, h = data(80, k, ties)
    z = np.column_stack([z, np.full(80, 0.1)])  # a constant latent has no interval and changes none
    counts = np.concatenate(list(draw_counts(80, 30, seed=3)))
    assert (counts.sum(axis=1) == 80).all()
    copies = [np.repeat(np.arange(80), row) for row in counts]
    headline, per_latent = zip(*(by_copies(name, z[rows], h[rows]) for rows in copies), strict=True)
    found = metrics.bootstrap(z, h, [name], resamples=30, level=0.8, seed=3)[name]
    np.testing.assert_allclose([found.low, found.high], np.quantile(headline, [0.1, 0.9]), atol=1e-9)
    assert np.isnan(found.low_per_latent[3])
    if name != "orthogonal_residual":
        ends = np.quantile(np.array(per_latent)[:, :3], [0.1, 0.9], axis=0)
        np.testing.assert_allclose([found.low_per_latent[:3], found.high_per_latent[:3]], ends, atol=1e-7)


def test_memory_steps_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    z, h = data(50, 3)
    whole = metrics.bootstrap(z, h, resamples=40)
    monkeypatch.setattr("ident3d.metrics.resampling.DRAWS_AT_ONCE", 500)
    monkeypatch.setattr("ident3d.metrics.resampling.ROWS_AT_ONCE", 7)
    assert DRAWS_AT_ONCE > 500
    for name, interval in metrics.bootstrap(z, h, resamples=40).items():
        assert interval.low == pytest.approx(whole[name].low, abs=1e-12)


def test_intervals_cover_the_true_value() -> None:
    # z = h + noise of equal variance: R² is 1/2 and the correlation is √½ in the population
    covered = np.zeros(2)
    for trial in range(100):
        rng = np.random.default_rng(trial)
        h = rng.normal(size=(400, 1))
        found = metrics.bootstrap(h + rng.normal(size=(400, 1)), h, resamples=200, level=0.9, seed=trial)
        for i, (name, true) in enumerate([("linear_r2", 0.5), ("mcc_pearson", np.sqrt(0.5))]):
            covered[i] += found[name].low <= true <= found[name].high
    assert (covered >= 80).all()
    assert (covered <= 98).all()


def test_held_out_predictions_equal_a_loop() -> None:
    z, h = data(120, 3)
    result = metrics.linear_r2(z, h, split=True)
    counts = np.concatenate(list(draw_counts(60, 25, seed=0)))
    values = []
    for row in counts:
        rows = np.repeat(np.arange(60), row)
        true, predicted = result.true[rows], result.predicted[rows]
        values.append(
            np.mean(1 - ((true - predicted) ** 2).sum(axis=0) / ((true - true.mean(axis=0)) ** 2).sum(axis=0))
        )
    found = metrics.bootstrap_predictions(result.true, result.predicted, resamples=25)
    np.testing.assert_allclose([found.low, found.high], np.quantile(values, [0.025, 0.975]), atol=1e-9)


def test_accuracy_interval() -> None:
    labels = np.array(["a", "b"] * 200)
    named = labels.copy()
    named[:40] = "c"
    found = metrics.bootstrap_accuracy(labels, named, resamples=2000)
    spread = 1.96 * np.sqrt(0.9 * 0.1 / 400)
    assert found.low == pytest.approx(0.9 - spread, abs=0.005)
    assert found.high == pytest.approx(0.9 + spread, abs=0.005)
