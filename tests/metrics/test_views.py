"""Overlap of pairs, and the shape of a conditional that is seen in codes of views."""

import numpy as np
import pytest

from ident3d import metrics
from ident3d.errors import UserError
from ident3d.metrics.pair_overlap import nearest_other
from ident3d.metrics.view_shapes import dips


def test_overlap_is_what_a_loop_finds() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40, 3)) + 1e3
    z_tilde = z + rng.normal(size=z.shape)
    found = metrics.overlap(z, z_tilde, batch=20)
    for first in (0, 20):
        rows = range(first, first + 20)
        for i in rows:
            others = [v[j] for v in (z, z_tilde) for j in rows if j != i]
            assert found.other[i] == pytest.approx(min(np.linalg.norm(z[i] - v) for v in others))
    assert float(found) == np.mean(found.other < np.linalg.norm(z - z_tilde, axis=1))
    assert 0.2 < float(found) < float(metrics.overlap(z, z_tilde))
    assert metrics.overlap(z, z_tilde, batch=30).other.shape == (30,)


def test_overlap_falls_with_the_precision_and_the_dimension() -> None:
    rng = np.random.default_rng(0)

    def share(d: int, width: float) -> float:
        z = rng.normal(size=(300, d))
        return float(metrics.overlap(z, z + width * rng.normal(size=z.shape)))

    assert share(5, 0.02) < share(5, 0.2) < share(5, 1.0)
    assert share(20, 0.5) < share(5, 0.5) < share(2, 0.5)
    # Unrelated positives are the nearest of 2B - 1 others by chance alone.
    z, other = rng.normal(size=(2, 400, 4))
    assert float(metrics.overlap(z, other, batch=50)) == pytest.approx(1 - 1 / 99, abs=0.02)


def test_blocks_of_rows_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    z, z_tilde = rng.normal(size=(2, 30, 4))
    whole = nearest_other(z, z_tilde)
    monkeypatch.setattr("ident3d.metrics.pair_overlap.AT_ONCE", 200)
    np.testing.assert_array_equal(nearest_other(z, z_tilde), whole)


@pytest.mark.parametrize("batch", [1, 31])
def test_wrong_batches_and_shapes_are_refused(batch: int) -> None:
    z = np.zeros((30, 2))
    with pytest.raises(UserError, match=f"30, not {batch}"):
        metrics.overlap(z, z, batch=batch)
    with pytest.raises(UserError, match="2 columns and positives 1"):
        metrics.overlap(z, z[:, :1])


def test_shapes_of_normal_skewed_and_two_peaked_codes() -> None:
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(150, 200))
    peaks = rng.normal(size=(150, 200)) + 5 * rng.integers(2, size=(150, 200))
    skewed = rng.exponential(size=(150, 200))
    codes = np.stack([3 * normal + 7, peaks, skewed, np.ones_like(normal)], 2)
    found = metrics.conditional_shape(codes)
    assert found.not_normal[0] == pytest.approx(0.05, abs=0.05)
    assert found.two_peaks[0] < 0.1
    assert (found.not_normal[1:3] > 0.95).all()
    assert found.two_peaks[1] > 0.95
    assert found.two_peaks[2] < 0.03
    assert np.isnan(found.not_normal[3])
    assert float(found) == pytest.approx(found.not_normal[:3].mean())
    assert found.width[0] == pytest.approx(3, rel=0.05)
    assert found.width[3] == found.across[3] == 0


@pytest.mark.parametrize("views", [40, 300])
def test_what_is_not_normal_need_not_have_two_peaks(views: int) -> None:
    rng, size = np.random.default_rng(1), (300, views)
    samples = {
        "exponential": rng.exponential(size=size),
        "uniform": rng.uniform(size=size),
        "student": rng.standard_t(2, size=size),
        "laplace": rng.laplace(size=size),
        "log-normal": rng.lognormal(size=size),
    }
    found = metrics.conditional_shape(np.stack(list(samples.values()), 2))
    shares = dict(zip(samples, found.two_peaks, strict=True))
    assert max(shares.values()) < (0.05 if views < 100 else 0.02), shares
    if views == 300:
        assert (found.not_normal > 0.95).all()


def test_two_peaks_need_not_be_equal() -> None:
    rng, size = np.random.default_rng(2), (150, 300)
    one = rng.normal(size=size)
    equal, fewer, narrow = 5 * rng.integers(2, size=size), 6 * (rng.random(size) < 0.2), 4 * rng.integers(2, size=size)
    close = rng.normal(size=size) + 2 * rng.integers(2, size=size)
    codes = np.stack([one + equal, one - fewer, np.where(narrow, 4 + 0.2 * one, one), close], 2)
    found = metrics.conditional_shape(codes).two_peaks
    assert (found[:3] > 0.95).all()
    # The density of two equal normal distributions two standard deviations apart has one peak.
    assert found[3] < 0.02


def test_dips_are_those_of_the_density() -> None:
    share, variance = np.array([[0.5, 0.5, 0.7], [0.5, 0.5, 0.3]]), np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.25]])
    centre = np.array([[-2.0, 0.0, 0.0], [2.0, 1.0, 4.0]])
    found = dips(share, centre, variance)
    # At both means of the first: 1 + exp(-8) halves of a normal peak, and 2 exp(-2) halfway.
    assert found[0] == pytest.approx(2 * np.exp(-2) / (1 + np.exp(-8)), rel=1e-3)
    assert found[1] == 1
    t = np.linspace(-3, 7, 20_001)
    density = 0.7 * np.exp(-0.5 * t**2) + 0.6 * np.exp(-2 * (t - 4) ** 2)
    between = density[(t > 0.5) & (t < 3.5)].min()
    assert found[2] == pytest.approx(between / min(density[t < 2].max(), density[t > 3].max()), rel=1e-3)


def test_more_views_than_the_test_of_normality_holds_for_are_refused() -> None:
    codes = np.random.default_rng(0).normal(size=(1, 5_001, 1))
    with pytest.raises(UserError, match=r"at most 5,000.*5,001"):
        metrics.conditional_shape(codes)
    assert np.isfinite(float(metrics.conditional_shape(codes[:, :5_000])))


def test_codes_without_views_are_refused() -> None:
    for wrong in (np.zeros((3, 40)), np.zeros((3, 19, 2)), np.zeros((0, 40, 2))):
        with pytest.raises(UserError, match="at least 20 views"):
            metrics.conditional_shape(wrong)
    with pytest.raises(UserError, match="changes between"):
        metrics.conditional_shape(np.zeros((3, 40, 2)))
    with pytest.raises(UserError, match="not finite"):
        metrics.conditional_shape(np.full((3, 40, 2), np.nan))
