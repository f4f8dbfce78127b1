"""Pair sampling: the conditional's draws, matched exactly, the same pairs however they are asked for."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.latents import Box, Product, Sphere, conditional
from ident3d.latents.distributions import by_name as choose
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.pairs import index_cache, search
from ident3d.loaders.pairs.sampler import PairSampler
from ident3d.loaders.pairs.variates import draw_variates, permutation

DIM = 10


def uniform_latents(n: int, seed: int = 0, dim: int = DIM) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, dim)).astype(np.float32)


def by_force(latents: np.ndarray, queries: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """The nearest allowed row, from all distances; allowed (queries, rows)."""
    distance = ((queries[:, None] - latents[None].astype(np.float64)) ** 2).sum(axis=2)
    return np.where(allowed, distance, np.inf).argmin(axis=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("kind", ["exact", "flat"])
def test_the_positive_is_the_nearest_other_image(kind: str) -> None:
    latents = uniform_latents(2000)
    sampler = PairSampler(latents, conditional("normal", Box(DIM), sigma=0.1), search=kind)
    pairs = sampler.pairs(np.arange(500))
    others = np.arange(2000)[None] != pairs.anchor[:, None]
    np.testing.assert_array_equal(pairs.positive, by_force(latents, pairs.drawn, others))
    assert (pairs.positive != pairs.anchor).all()
    nearest = by_force(latents, pairs.drawn, np.ones_like(others))
    assert (nearest == pairs.anchor).mean() > 0.5  # so the rule that it be another image is at work


def test_draws_follow_the_conditional_around_the_anchor() -> None:
    latents = uniform_latents(500)
    sampler = PairSampler(latents, conditional("laplace", Box(DIM), sigma=0.05), seed=3)
    pairs = sampler.pairs(np.arange(20_000))
    z = latents[pairs.anchor]
    inside = np.abs(z) < 0.4  # further than 12 scales from the edge, where truncation does nothing
    assert stats.kstest((pairs.drawn - z)[inside][:20_000], stats.laplace(scale=0.05).cdf).pvalue > 1e-4
    assert stats.chisquare(np.bincount(pairs.anchor, minlength=500)).pvalue > 1e-4


def test_anchors_nearest_to_the_marginal() -> None:
    latents = uniform_latents(2000)[:, :2].clip(-1, 0)  # most of the box has no image
    sampler = PairSampler(latents, conditional("normal", Box(2), sigma=0.1), anchors="marginal")
    anchors = latents[sampler.pairs(np.arange(3000)).anchor]
    # a quarter of the marginal lies nearest to the image that has both coordinates at 0
    assert (anchors == 0).all(axis=1).mean() == pytest.approx(0.25, abs=0.04)
    assert (PairSampler(latents, sampler.conditional).pairs(np.arange(3000)).anchor < 2000).all()


@pytest.mark.parametrize("name", ["normal", "rejected"])
def test_pairs_depend_on_seed_and_number_alone(name: str) -> None:
    space = Product((Box(3), Sphere(8)))
    latents = uniform_latents(300, dim=11)
    latents[:, 3:] /= np.linalg.norm(latents[:, 3:], axis=1, keepdims=True)
    precision = 25.0 if name == "rejected" else None
    cond = conditional("normal,rejected_normal" if precision else "normal", space, sigma=0.2, precision=precision)
    whole = PairSampler(latents, cond, seed=5).pairs(np.arange(64))
    shuffled = np.random.default_rng(1).permutation(64)
    for numbers in (shuffled, np.arange(7, 9), np.array([63])):
        part = PairSampler(latents, cond, seed=5).pairs(numbers)
        for a, b in ((part.anchor, whole.anchor), (part.positive, whole.positive), (part.drawn, whole.drawn)):
            np.testing.assert_array_equal(a, b[numbers])
    np.testing.assert_allclose(np.linalg.norm(whole.drawn[:, 3:], axis=1), 1, atol=1e-9)
    assert (PairSampler(latents, cond, seed=6).pairs(np.arange(64)).anchor != whole.anchor).any()
    assert len(PairSampler(latents, cond).pairs([]).anchor) == 0


def test_within_a_class() -> None:
    latents, classes = uniform_latents(700), (np.arange(700) % 7).astype(np.int8)
    sampler = PairSampler(latents, conditional("normal", Box(DIM), sigma=0.5, only=[7, 8, 9]), classes=classes)
    pairs = sampler.pairs(np.arange(300))
    assert (classes[pairs.anchor] == classes[pairs.positive]).all()
    allowed = (classes[None] == classes[pairs.anchor][:, None]) & (np.arange(700)[None] != pairs.anchor[:, None])
    np.testing.assert_array_equal(pairs.positive, by_force(latents, pairs.drawn, allowed))
    np.testing.assert_array_equal(pairs.drawn[:, :7], latents[pairs.anchor][:, :7])  # the others stay
    marginal = PairSampler(latents, sampler.conditional, classes=classes, anchors="marginal").pairs(np.arange(300))
    assert len(np.unique(classes[marginal.anchor])) == 7
    assert (classes[marginal.anchor] == classes[marginal.positive]).all()


def test_hard_negatives_come_from_the_second_conditional_and_change_nothing_else() -> None:
    latents = uniform_latents(3000)
    cond, away = conditional("normal", Box(DIM), sigma=0.05), conditional("normal", Box(DIM), sigma=0.6)
    plain, hard = PairSampler(latents, cond), PairSampler(latents, cond, negative=away)
    a, b = plain.pairs(np.arange(400)), hard.pairs(np.arange(400))
    np.testing.assert_array_equal(a.positive, b.positive)
    assert b.negative is not None
    assert (b.negative != b.anchor).all()
    distance = [np.linalg.norm(latents[i] - latents[b.anchor], axis=1).mean() for i in (b.positive, b.negative)]
    assert distance[1] > 1.3 * distance[0]


def test_the_papers_index_finds_most_neighbours_and_is_cached(cache: Path) -> None:
    latents = uniform_latents(41_000)
    cond = conditional("normal", Box(DIM), sigma=0.1)
    exact = PairSampler(latents, cond).pairs(np.arange(1000)).positive
    approximate = PairSampler(latents, cond, search="ivf")
    assert approximate.neighbours.search == "ivf"
    found = approximate.pairs(np.arange(1000)).positive
    assert 0.5 < (found == exact).mean() < 1
    path = index_cache.cached_path(latents, search.IVF)
    assert path.is_relative_to(cache)
    good = path.read_bytes()
    again = PairSampler(latents, cond, search="ivf")
    np.testing.assert_array_equal(again.pairs(np.arange(1000)).positive, found)
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))  # FAISS must never see this
    assert index_cache.load_index(path) is None
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).pairs(np.arange(1000)).positive, found)
    assert path.read_bytes() == good


def test_few_images_are_searched_exactly_and_it_says_so() -> None:
    latents, cond = uniform_latents(500), conditional("normal", Box(DIM), sigma=0.1)
    with pytest.warns(UserWarning, match=r"40,000.*500.*exact"):
        sampler = PairSampler(latents, cond, search="ivf")
    np.testing.assert_array_equal(
        sampler.pairs(np.arange(50)).positive, PairSampler(latents, cond).pairs(np.arange(50)).positive
    )


def test_images_with_equal_latents_pair_with_each_other() -> None:
    latents = np.repeat(uniform_latents(50), 2, axis=0)
    pairs = PairSampler(latents, conditional("normal", Box(DIM), sigma=1e-4)).pairs(np.arange(200))
    np.testing.assert_array_equal(pairs.positive, pairs.anchor ^ 1)


def test_variates_of_different_pairs_purposes_and_seeds_are_independent() -> None:
    u = draw_variates(0, np.arange(4000)).reshape(4000, -1)
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-4
    correlations = np.corrcoef(np.column_stack([u[:, :40], u[1:].tolist() + u[:1].tolist()])[:, :80].T)
    assert np.abs(correlations - np.eye(80)).max() < 6 / np.sqrt(4000)
    assert not np.intersect1d(u, draw_variates(1, np.arange(4000))).size
    orders = [permutation(0, epoch, 100) for epoch in range(2)]
    np.testing.assert_array_equal(np.sort(orders), [np.arange(100)] * 2)
    assert (orders[0] != orders[1]).any()


def test_mistakes_get_one_sentence(tmp_path: Path) -> None:
    latents, cond = uniform_latents(20), conditional("normal", Box(DIM), sigma=0.1)
    with pytest.raises(UserError, match="two different images"):
        PairSampler(latents[:1], cond)
    with pytest.raises(UserError, match="of every class"):
        PairSampler(latents, cond, classes=np.arange(20, dtype=np.int8))
    with pytest.raises(UserError, match="does not fit latents"):
        PairSampler(latents[:, :5], cond)
    with pytest.raises(UserError, match="Did you mean 'exact'"):
        PairSampler(latents, cond, search="exat")
    with pytest.raises(UserError, match="way to choose anchors"):
        PairSampler(latents, cond, anchors="all")
    with pytest.raises(UserError, match="seed must be"):
        PairSampler(latents, cond, seed=-1)
    with pytest.raises(UserError, match="from 0"):
        PairSampler(latents, cond).pairs([-1])
    path = make_dataset(tmp_path / "set", 16)
    for sigma in (0.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="sigma must be positive"):
            PairDataset(path, sigma=sigma)
    with pytest.raises(UserError, match=r"\bbox\b.*sphere"):
        PairDataset(path, space="sphere")
    with pytest.raises(UserError, match="Did you mean 'rotation'"):
        PairDataset(path, only=["rotatoin"])
    with pytest.raises(UserError, match="At least one latent"):
        PairDataset(path, only=[])
    with pytest.raises(UserError, match="have no classes"):
        PairDataset(path, same_class=True)
    with pytest.raises(UserError, match="at least one pair"):
        PairDataset(path, length=0)
    with pytest.raises(UserError, match="two different images"):
        PairDataset(make_dataset(tmp_path / "single", 1))


def test_views_of_the_causal_paper_redraw_their_latents_within_a_class(tmp_path: Path) -> None:
    """On images drawn from the causal graph: z̃' differs from z in the view's latents alone, and the class stays."""
    data = make_dataset(tmp_path / "set", 140, scene="causal3dident", classes=7)
    moving = {"positions": {0, 1, 2, 6}, "rotations": {3, 4, 5}, "hues": {7, 8, 9}}
    for views in (["positions"], ["rotations"], ["hues"], ["positions", "hues"], ["rotations", "hues"]):
        pairs = PairDataset(data, sigma=1.0, only=views, same_class=True)
        law = pairs.sampler.conditional
        z = pairs.source.all_latents()[0][:50]
        drawn = law.sample(z, choose.uniforms(np.random.default_rng(0), like=z))
        changed = set(np.flatnonzero((drawn != z).any(axis=0)).tolist())
        assert changed == set().union(*(moving[view] for view in views))
        (z, z_tilde), _ = pairs.batch(np.arange(100))
        assert (z[:, -1] == z_tilde[:, -1]).all()
        assert len(set(z[:, -1].tolist())) == 7


def test_an_index_that_cannot_be_kept_is_used_all_the_same(cache: Path) -> None:
    cache.write_text("a file where a folder is due")
    latents = uniform_latents(500)
    with pytest.warns(UserWarning, match="The index is not kept"):
        index = index_cache.cached_index(latents, "Flat")
    assert (index.search(latents, 1)[1][:, 0] == np.arange(500)).all()


def test_what_pairs_cannot_be_drawn_from(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\b16\b.*\b17\b"):
        PairSampler(uniform_latents(50, dim=17), conditional("normal", Box(17), sigma=0.1))
    path = make_dataset(tmp_path / "causal", 21, scene="causal3dident", classes=7)
    with pytest.raises(UserError, match=r"causal3dident.*--anchors rendered"):
        PairDataset(path, anchors="marginal")
    PairDataset(path)
