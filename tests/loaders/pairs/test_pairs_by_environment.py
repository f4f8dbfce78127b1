"""Pairs within one environment or across two: the nearest of those images, and none other."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_dataset

from ident3d import ImageDataset, PairDataset, UserError, info, verify
from ident3d.latents.environments import read_environments
from ident3d.loaders.cards.text import card
from ident3d.loaders.format.description import read_description
from ident3d.loaders.pairs.search import Neighbours

ENVIRONMENTS = read_environments(["plain:", "right:y=0.5", "low:z~uniform(-1, -0.5)"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("environments") / "data"
    return make_dataset(path, 120, size=4, shard_size=64, environments=ENVIRONMENTS)


def test_the_folder_says_its_environments(folder: Path) -> None:
    images = ImageDataset(folder)
    assert images.columns == ("environment",)
    assert images.environments == ("plain", "right", "low")
    np.testing.assert_array_equal(images.column("environment"), np.arange(120) % 3)
    assert (images.all_latents()[0][1::3, 1] == 0.5).all()
    for text in (info(folder).table(), card("data", read_description(folder))):
        assert "environment 2, low" in text
        assert "z ~ uniform(-1, -0.5)" in text
    assert verify(folder, show_progress=False).sound


@pytest.mark.parametrize("where", ["within", "across", "within:low, plain", "within:right", "across:low,right"])
def test_positives_are_the_nearest_allowed_images(where: str, folder: Path) -> None:
    pairs = PairDataset(folder, sigma=0.2, environments=where)
    z, environment = pairs.source.all_latents()[0].astype(np.float64), np.arange(120) % 3
    drawn = pairs.sampler.pairs(np.arange(300))
    way, _, names = where.partition(":")
    among = np.isin(environment, [k for k, name in enumerate(pairs.source.environments) if name in (names or name)])
    assert set(environment[drawn.anchor]) == set(environment[among])
    for anchor, positive, wanted in zip(drawn.anchor, drawn.positive, drawn.drawn, strict=True):
        allowed = among & ((environment == environment[anchor]) == (way == "within"))
        allowed[anchor] = False
        distance = np.where(allowed, ((z - wanted) ** 2).sum(axis=1), np.inf)
        assert positive == distance.argmin()
    assert pairs.sampler.settings != PairDataset(folder, sigma=0.2).sampler.settings


def test_what_has_no_environments_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    plain = make_dataset(tmp_path / "plain", 16, size=4)
    with pytest.raises(UserError, match="no environments"):
        PairDataset(plain, environments="within")
    for wrong, says in {
        "among": "across", "within:rigth": "Did you mean 'right'", "across:low": "names one", "within:": "names no",
        "within:low,": "names no",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=says):
            PairDataset(folder, environments=wrong)


@pytest.mark.parametrize("spread", [0.0, 5.0])
def test_one_tree_serves_all_environments_and_is_exact_far_from_the_others(spread: float) -> None:
    """With a spread environments lie apart, so that the nearest rows of a query are all of its own."""
    rng = np.random.default_rng(0)
    apart, classes = np.repeat(np.arange(3), 100), np.arange(300) % 2
    z = (rng.uniform(-1, 1, (300, 2)) + spread * apart[:, None]).astype(np.float32)
    queries, anchor = z + rng.normal(0, 0.1, z.shape), np.arange(300)
    for kinds in (None, classes):
        search = Neighbours(z, "exact", kinds, apart=apart)
        assert len(search.groups) == (1 if kinds is None else 2)
        found = pickle.loads(pickle.dumps(search)).find(queries, anchor)
        distance = ((z[None].astype(np.float64) - queries[:, None]) ** 2).sum(axis=2)
        distance[apart[:, None] == apart] = np.inf
        if kinds is not None:
            distance[classes[:, None] != classes] = np.inf
        np.testing.assert_array_equal(found, distance.argmin(axis=1))
    with pytest.raises(UserError, match="images have none in another environment, of their class"):
        Neighbours(z, "exact", (apart == 2).astype(np.int64), apart=apart)
