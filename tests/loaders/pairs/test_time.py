"""Pairs in time: which frame follows which, how often, and what happens at the end of a sequence."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import ident3d
from ident3d import PairDataset, TimeSampler, UserError

LENGTHS = (2, 1, 7, 4, 3)
N = sum(LENGTHS)
SEQUENCE = np.repeat(np.arange(5), LENGTHS)
FRAME = np.concatenate([np.arange(n) for n in LENGTHS])
NO_LATENTS = np.empty((N, 0), np.float32)
COUNT = 40_000


def expected(max_lag: int) -> np.ndarray:
    """P(anchor, positive), every frame and step written out."""
    p, starts = np.zeros((N, N)), np.flatnonzero(np.diff(SEQUENCE) == 0)
    for start in starts:
        last = start + LENGTHS[SEQUENCE[start]] - 1 - FRAME[start]
        for lag in range(1, max_lag + 1):
            p[start, min(start + lag, last)] += 1 / len(starts) / max_lag
    return p


@pytest.mark.parametrize("max_lag", [1, 3, 6])
def test_frequencies_are_those_of_the_papers(max_lag: int) -> None:
    p = expected(max_lag)
    pairs = TimeSampler(NO_LATENTS, SEQUENCE, FRAME, max_lag=max_lag).pairs(np.arange(COUNT))
    found = np.zeros((N, N))
    np.add.at(found, (pairs.anchor, pairs.positive), 1)
    assert not found[p == 0].any()
    assert stats.chisquare(found[p > 0], p[p > 0] * COUNT).pvalue > 1e-4


def test_images_in_any_order_and_numbers_with_gaps() -> None:
    order = np.random.default_rng(0).permutation(N)
    plain = TimeSampler(NO_LATENTS, SEQUENCE, FRAME, max_lag=3)
    mixed = TimeSampler(NO_LATENTS, -7 * SEQUENCE[order], 5 * FRAME[order] - 3, max_lag=3)
    pairs = mixed.pairs(np.arange(3000))
    lags = FRAME[order][pairs.positive] - FRAME[order][pairs.anchor]
    np.testing.assert_array_equal(mixed.lags(pairs), lags)
    assert set(lags) == {1, 2, 3}
    assert (SEQUENCE[order][pairs.anchor] == SEQUENCE[order][pairs.positive]).all()
    # without numbers, frames are in the order of the images
    a, b = (s.pairs(np.arange(200)) for s in (plain, TimeSampler(NO_LATENTS, SEQUENCE, max_lag=3)))
    np.testing.assert_array_equal(a.positive, b.positive)


def test_pairs_depend_on_seed_and_number_alone() -> None:
    sampler = TimeSampler(NO_LATENTS, SEQUENCE, FRAME, max_lag=2, seed=5)
    whole, part = sampler.pairs(np.arange(100)), sampler.pairs([99, 3, 50])
    np.testing.assert_array_equal(part.positive, whole.positive[[99, 3, 50]])
    other = TimeSampler(NO_LATENTS, SEQUENCE, FRAME, max_lag=2, seed=6).pairs(np.arange(100))
    assert (other.anchor != whole.anchor).any()


def folder(path: Path, first: int = 0, **columns: np.ndarray) -> Path:
    images = np.arange(first, first + N, dtype=np.uint8)[:, None, None] + np.zeros((1, 8, 8), np.uint8)
    ident3d.from_arrays(images, None, path, columns=columns, show_progress=False)
    return path


def test_folders_without_latents_and_joined_ones(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", sequence=SEQUENCE, frame=FRAME)
    # the same numbers of sequences in the other folder are other sequences
    two = folder(tmp_path / "two", N, sequence=SEQUENCE, frame=FRAME)
    pairs = PairDataset([one, two], rule="time", max_lag=4, length=2000)
    (z, _), (x, x_tilde) = pairs[list(range(2000))]
    assert z.shape == (2000, 0)
    first, second = x[:, 0, 0, 0].numpy().astype(int), x_tilde[:, 0, 0, 0].numpy().astype(int)
    assert ((first < N) == (second < N)).all()
    assert 0.4 < (first < N).mean() < 0.6
    assert ((second > first) & (second <= first + 4)).all()
    assert (SEQUENCE[first % N] == SEQUENCE[second % N]).all()


def test_sequences_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"7 frames later.*longest sequence has 7"):
        TimeSampler(NO_LATENTS, SEQUENCE, max_lag=7)
    with pytest.raises(UserError, match="no pairs"):
        TimeSampler(NO_LATENTS, np.arange(N))
    with pytest.raises(UserError, match="from 1"):
        TimeSampler(NO_LATENTS, SEQUENCE, max_lag=0)
    with pytest.raises(UserError, match=r"Frame 3 of sequence 2"):
        TimeSampler(NO_LATENTS, SEQUENCE, np.where(FRAME == 4, 3, FRAME))
    with pytest.raises(UserError, match=r"18 images|17 images"):
        TimeSampler(NO_LATENTS, SEQUENCE[:-1])
    bare = folder(tmp_path / "bare", environment=SEQUENCE)
    with pytest.raises(UserError, match=r"bare.*sequence"):
        PairDataset(bare, rule="time")
    with pytest.raises(UserError, match="no latents"):
        PairDataset(bare)
    with pytest.raises(UserError, match=r"max_lag.*time"):
        PairDataset(bare, max_lag=3)
    for other in ({"sigma": 0.2}, {"only": ["x"]}, {"rate": 2.0}, {"negative": {"cond": "normal"}}):
        with pytest.raises(UserError, match=next(iter(other))):
            PairDataset(bare, rule="time", **other)
