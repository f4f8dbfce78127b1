"""Overlap of pairs, and the shape of a conditional that is seen in codes of views."""

import numpy as np
import pytest

from ident3d import metrics
from ident3d.errors import UserError
from ident3d.metrics.pair_overlap import nearest_other


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
    assert np.isnan(found.not_normal[3])
    assert float(found) == pytest.approx(found.not_normal[:3].mean())
    assert found.width[0] == pytest.approx(3, rel=0.05)
    assert found.width[3] == found.across[3] == 0


def test_codes_without_views_are_refused() -> None:
    for wrong in (np.zeros((3, 40)), np.zeros((3, 19, 2)), np.zeros((0, 40, 2))):
        with pytest.raises(UserError, match="at least 20 views"):
            metrics.conditional_shape(wrong)
    with pytest.raises(UserError, match="changes between"):
        metrics.conditional_shape(np.zeros((3, 40, 2)))
    with pytest.raises(UserError, match="not finite"):
        metrics.conditional_shape(np.full((3, 40, 2), np.nan))
