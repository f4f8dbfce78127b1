"""Pairs on a grid: the frequencies of uni and lap against their closed forms, the lookup, and grids that are none."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import ident3d
from ident3d import Factor, Factors, GridSampler, UserError
from ident3d.loaders.pairs.sampler import Pairs

SIZES = (3, 6, 5, 2)  # the first is categorical
N = int(np.prod(SIZES))
CELLS = np.stack(np.unravel_index(np.arange(N), SIZES), axis=1)
FACTORS = Factors(
    [
        Factor("shape", "categorical", values=("square", "heart", "ellipse")),
        Factor("colour", values=(1.0,)),
        Factor("scale", values=range(6)),
        Factor("turn", "periodic", range=(0, 360), values=[72 * k for k in range(5)]),
        Factor("x", values=(0, 1)),
    ]
)
RAW = FACTORS.to_raw(np.insert(np.stack([CELLS[:, 0], *(CELLS.T[1:])], 1), 1, 1.0, axis=1) * [1, 1, 1, 72, 1])
COUNT = 60_000


def weights(n: int, i: int, rate: float) -> np.ndarray:
    """p(j) of lap, written down as the paper has it."""
    p = np.exp(-np.abs(np.arange(n) - i) * rate / np.log(n))
    return p / p.sum()


def lap_given(i: tuple[int, ...], rate: float, rejecting: bool) -> np.ndarray:
    """The probability of every cell given the anchor's values: all combinations are written out."""
    each = [weights(n, j, rate) for n, j in zip(SIZES, i, strict=True)]
    each[0] = np.eye(SIZES[0])[i[0]]
    p = np.einsum("a,b,c,d->abcd", *each)
    nothing = p[i]
    p[i] = 0
    if rejecting:
        return p / p.sum()
    for k in (1, 2, 3):
        other = weights(SIZES[k], i[k], rate)
        other[i[k]] = 0
        place = [*i[:k], slice(None), *i[k + 1 :]]
        p[tuple(place)] += nothing / 3 * other / other.sum()
    return p


def drawn(**settings: object) -> Pairs:
    return GridSampler(RAW, FACTORS, **settings).pairs(np.arange(COUNT))  # type: ignore[arg-type]


@pytest.mark.parametrize("rejecting", [False, True])
@pytest.mark.parametrize("rate", [1.0, 3.0])
def test_lap_has_the_frequencies_of_its_formula(rejecting: bool, rate: float) -> None:
    pairs = drawn(grid="lap-rejecting" if rejecting else "lap", rate=rate)
    joint = np.stack([lap_given(tuple(cell), rate, rejecting).ravel() for cell in CELLS]) / N
    assert joint.sum() == pytest.approx(1)
    found = np.zeros((N, N))
    np.add.at(found, (pairs.anchor, pairs.positive), 1)
    assert not found[joint == 0].any()
    # the rare pairs are one class, as a chi-square needs five in each
    rare = joint * COUNT < 5
    expected = np.append(joint[~rare], joint[rare].sum()) * COUNT
    assert stats.chisquare(np.append(found[~rare], found[rare].sum()), expected).pvalue > 1e-4
    # and by itself what the traps are about: how many factors change
    changed = (CELLS[:, None] != CELLS[None]).sum(axis=2)
    shares = np.bincount(changed.ravel(), joint.ravel(), minlength=4)[1:4]
    counts = np.bincount(changed[pairs.anchor, pairs.positive], minlength=4)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:4], shares * COUNT).pvalue > 1e-4


def test_the_two_ways_to_avoid_pairs_without_a_change_differ() -> None:
    """So that the tests above tell them apart: one change is forced more often than it is drawn."""
    single = [(CELLS[p.anchor] != CELLS[p.positive]).sum(axis=1) == 1 for p in (drawn(), drawn(grid="lap-rejecting"))]
    assert single[0].mean() > single[1].mean() + 0.01


def test_a_rate_for_each_pair_is_uniform_from_1_to_10() -> None:
    pairs = drawn(rate=None)
    nodes, share = np.polynomial.legendre.leggauss(40)
    mixed = [sum(s * lap_given(tuple(c), 5.5 + 4.5 * r, False) for r, s in zip(nodes, share, strict=True)) / 2
             for c in CELLS[:: N // 6]]  # fmt: skip
    for first, p in zip(range(0, N, N // 6), mixed, strict=True):
        found = np.bincount(pairs.positive[pairs.anchor == first], minlength=N)
        expected, rare = p.ravel() * found.sum(), p.ravel() * found.sum() < 5
        observed = np.append(found[~rare], found[rare].sum())
        assert stats.chisquare(observed, np.append(expected[~rare], expected[rare].sum())).pvalue > 1e-4


def test_uni_has_the_frequencies_of_its_formula() -> None:
    pairs = drawn(grid="uni")
    different = CELLS[pairs.anchor] != CELLS[pairs.positive]
    # k is uniform on 1 … 3, and every set of k factors as likely as the others
    sets = np.bincount(different @ [8, 4, 2, 1], minlength=16)
    bits = np.array([bin(k).count("1") for k in range(16)])
    expected = np.where((bits > 0) & (bits < 4), 1 / 3 / np.array([1, 4, 6, 4, 1])[bits], 0) * COUNT
    assert sets[0] == sets[15] == 0
    assert stats.chisquare(sets[1:15], expected[1:15]).pvalue > 1e-4
    # each of the other values alike, shape as well
    for k, n in enumerate(SIZES):
        step = (CELLS[pairs.positive, k] - CELLS[pairs.anchor, k])[different[:, k]] % n
        if n > 2:
            assert stats.chisquare(np.bincount(step, minlength=n)[1:]).pvalue > 1e-4


def test_redraw_has_the_frequencies_of_its_formula() -> None:
    pairs = drawn(grid="redraw")
    different = CELLS[pairs.anchor] != CELLS[pairs.positive]
    # a coin: one factor, or k uniform on 1 … 3; a factor that is chosen keeps its value by chance
    chosen = {1: 1 / 2 + 1 / 6, 2: 1 / 6, 3: 1 / 6}
    expected = np.zeros((2,) * 4)
    for count, share in chosen.items():
        sets = list(combinations(range(4), count))
        for which in sets:
            p = np.ones((1,) * 4)
            for k, n in enumerate(SIZES):
                stays = 1 / n if k in which else 1.0
                p = p * np.array([stays, 1 - stays]).reshape([2 if axis == k else 1 for axis in range(4)])
            expected += share / len(sets) * p
    found = np.bincount(different @ [8, 4, 2, 1], minlength=16)
    rare = expected.ravel() * COUNT < 5
    assert not found[rare].sum()  # all four
    assert stats.chisquare(found[~rare], expected.ravel()[~rare] * COUNT).pvalue > 1e-4
    for k, n in enumerate(SIZES):
        step = (CELLS[pairs.positive, k] - CELLS[pairs.anchor, k])[different[:, k]] % n
        if n > 2:
            assert stats.chisquare(np.bincount(step, minlength=n)[1:]).pvalue > 1e-4


def test_the_positive_is_looked_up_in_any_order_of_the_images() -> None:
    order = np.random.default_rng(0).permutation(N)
    pairs, cells = GridSampler(RAW[order], FACTORS, grid="uni").pairs(np.arange(500)), CELLS[order]
    # what was drawn is exactly what the positive shows
    old, new = cells[pairs.anchor], FACTORS.indices(pairs.drawn)[:, [0, 2, 3, 4]]
    np.testing.assert_array_equal(cells[pairs.positive], new)
    assert set((old != new).sum(axis=1)) == {1, 2, 3}
    # with the order of the grid, the same random numbers change the same anchors' factors in the same way
    place = np.argsort(order)
    plain = GridSampler(RAW, FACTORS, grid="uni").pairs(np.arange(500))
    same = np.flatnonzero(order[plain.anchor] == plain.anchor)
    np.testing.assert_array_equal(place[plain.positive[same]], pairs.positive[same])


@pytest.mark.parametrize("grid", ["uni", "lap", "lap-rejecting", "redraw"])
def test_pairs_depend_on_seed_and_number_alone(grid: str) -> None:
    sampler = GridSampler(RAW, FACTORS, grid=grid, seed=5)
    whole, order = sampler.pairs(np.arange(300)), np.random.default_rng(1).permutation(300)
    part = [GridSampler(RAW, FACTORS, grid=grid, seed=5).pairs(numbers) for numbers in np.split(order, [1, 50, 299])]
    for name in ("anchor", "positive"):
        np.testing.assert_array_equal(np.concatenate([getattr(p, name) for p in part]), getattr(whole, name)[order])
    assert (GridSampler(RAW, FACTORS, grid=grid, seed=6).pairs(np.arange(300)).anchor != whole.anchor).any()
    assert len(sampler.pairs([]).anchor) == 0


@pytest.mark.parametrize("rate", [1e-6, 100.0])
def test_rates_at_both_ends_stay_within_the_lists(rate: float) -> None:
    long = Factors([Factor("a", values=range(64)), Factor("b", values=range(2))])
    cells = np.stack(np.unravel_index(np.arange(128), (64, 2)), axis=1)
    for grid in ("lap", "lap-rejecting"):
        pairs = GridSampler(long.to_raw(cells), long, grid=grid, rate=rate).pairs(np.arange(20_000))
        step = cells[pairs.positive] - cells[pairs.anchor]
        assert (step != 0).any(axis=1).all()
        if rate == 100:
            assert np.abs(step).max() == 1
        else:
            flat = np.bincount(cells[pairs.positive, 0], minlength=64)
            assert stats.chisquare(flat).pvalue > 1e-4


def test_grids_that_are_none() -> None:
    with pytest.raises(UserError, match=r"1 of 180 have none here, the first shape \w+ and scale"):
        GridSampler(RAW[:-1], FACTORS)
    with pytest.raises(UserError, match=r"1 of 180 have none.*; 1 of 180 have several"):
        GridSampler(RAW[[0, 0, *range(2, N)]], FACTORS)
    free = Factors([Factor("x", values=(0, 1)), Factor("y", range=(0, 1))])
    with pytest.raises(UserError, match=r"y.*continuous"):
        GridSampler(np.zeros((4, 2), np.float32), free)
    kinds, line = Factors([Factor("kind", "categorical", values=("a", "b"))]), Factors([Factor("x", values=(0, 1))])
    with pytest.raises(UserError, match="not categorical"):
        GridSampler(kinds.to_raw([[0], [1]]), kinds)
    with pytest.raises(UserError, match="two factors"):
        GridSampler(line.to_raw([[0], [1]]), line, grid="uni")
    for settings, word in (({"grid": "lop"}, "lap"), ({"rate": 0.0}, "0"), ({"grid": "uni", "rate": 2.0}, "uni")):
        with pytest.raises(UserError, match=word):
            GridSampler(RAW, FACTORS, **settings)
    with pytest.raises(UserError, match="no listed values"):
        GridSampler(np.zeros((4, 10), np.float32), ident3d.latents.World("3dident"))
    with pytest.raises(UserError, match="from 0"):
        GridSampler(RAW, FACTORS).pairs([-1])
