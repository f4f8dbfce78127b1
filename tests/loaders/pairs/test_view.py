"""Pairs of views: another view of the same instance, each as often; the table shows what is shared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import make_dataset

from ident3d import ImageDataset, PairDataset, Sequences, UserError, Views, ViewSampler, from_arrays, pair_changes
from ident3d.cli import main
from ident3d.loaders.datasets.pair_rules import usual_rule
from ident3d.loaders.pairs.sampler import PairSampler
from ident3d.loaders.pairs.time import TimeSampler

VIEWS = Views(2, private=("hue", "x"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("views") / "data", 1200, size=4, shard_size=256, views=VIEWS)


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def test_positives_are_the_other_views_each_as_often() -> None:
    instance = np.array([5, 2, 5, 9, 5, 2])
    pairs = ViewSampler(np.empty((6, 0), np.float32), instance, seed=1).pairs(np.arange(16_000))
    assert (instance[pairs.anchor] == instance[pairs.positive]).all()
    found, count = np.unique(np.stack([pairs.anchor, pairs.positive]), axis=1, return_counts=True)
    assert [tuple(pair) for pair in found.T] == [(0, 2), (0, 4), (1, 5), (2, 0), (2, 4), (4, 0), (4, 2), (5, 1)]
    # Anchors are uniform over the five images that have another view.
    np.testing.assert_allclose(count, [1600, 1600, 3200, 1600, 1600, 1600, 1600, 3200], rtol=0.1)
    again = ViewSampler(np.empty((6, 0), np.float32), instance, seed=1).pairs([700, 3])
    np.testing.assert_array_equal(again.positive, pairs.positive[[700, 3]])


def test_a_folder_gives_its_pairs_and_blocks(folder: Path) -> None:
    pairs = PairDataset(folder, rule="view")
    blocks = pairs.source.blocks
    assert blocks["private"] == ("x", "object_hue", "spotlight_hue", "ground_hue")
    (z, z_tilde), (x, x_tilde) = pairs[list(range(64))]
    shared = [pairs.names.index(name) for name in blocks["shared"]]
    private = [pairs.names.index(name) for name in blocks["private"]]
    assert (z[:, shared] == z_tilde[:, shared]).all()
    assert (z[:, private] != z_tilde[:, private]).all()
    assert x.shape == x_tilde.shape == (64, 3, 4, 4)
    both = PairDataset([folder, folder], rule="view").sampler.pairs(np.arange(3000))
    assert ((both.anchor < 1200) == (both.positive < 1200)).all()


def test_the_table_shows_what_is_shared(folder: Path, tmp_path: Path) -> None:
    found = pair_changes(PairDataset(folder, rule="view"), 20_000)
    for name, changed, wide, asked, block, r in zip(
        found.names, found.changed, found.widths, found.asked, found.blocks, found.correlations, strict=True
    ):
        if block == "private":
            assert changed == 1
            assert wide == pytest.approx(2 / 3, rel=0.1)
            assert asked == pytest.approx(2 / 3, rel=0.02)
            assert r is not None
            # 600 instances.
            assert abs(r) < 0.2, name
        else:
            assert (block, changed, wide, asked) == ("shared", 0, 0, 0)
            assert r == pytest.approx(1)
    out = ["--pairs", "500", "--out", str(tmp_path / "pairs.png"), "--json"]
    shown = json.loads(run("pairs", str(folder), *out))
    assert shown["rule"] == "view"
    assert shown["blocks"]["y"] == "shared"
    assert shown["blocks"]["x"] == "private"
    assert (tmp_path / "pairs.png").stat().st_size > 1000
    # A width asks for pairs that are searched.
    assert json.loads(run("pairs", str(folder), "--sigma", "0.3", *out))["search"] == "exact"
    assert "private" in pair_changes(PairDataset(folder, rule="view"), 10).table()


def test_the_usual_rule_is_that_of_the_folder(folder: Path, tmp_path: Path) -> None:
    plain = make_dataset(tmp_path / "plain", 20, size=4)
    assert usual_rule(ImageDataset(folder)) == "view"
    assert usual_rule(ImageDataset(plain)) == "nearest"
    frames = make_dataset(tmp_path / "frames", 20, size=4, sequence=Sequences(2))
    assert usual_rule(ImageDataset(frames)) == "time"
    found = [PairDataset(frames, **given).sampler for given in ({}, {"cond": "normal"}, {"sigma": [0.1] * 10})]
    assert [type(sampler) for sampler in found] == [TimeSampler, PairSampler, PairSampler]
    out = ("--json", "--out", str(tmp_path / "frames.png"))
    assert json.loads(run("pairs", str(frames), *out))["rule"].startswith("time")
    assert json.loads(run("pairs", str(frames), "--sigma", "0.3", *out))["search"] == "exact"
    assert "instance" in run("pairs", str(plain), "--rule", "view", code=2)
    assert "max_lag" in run("pairs", str(folder), "--rule", "view", "--max-lag", "3", code=2)


def test_imported_views_are_paired(tmp_path: Path) -> None:
    images = np.zeros((6, 8, 8), np.uint8)
    instance: Any = np.array([0, 0, 1, 1, 2, 2])
    from_arrays(images, None, tmp_path / "own", columns={"instance": instance}, show_progress=False)
    found = pair_changes(PairDataset(tmp_path / "own"), 100)
    assert (found.blocks, found.correlations, found.rule) == ((), (), "view")
    with pytest.raises(UserError, match="no pairs"):
        ViewSampler(np.empty((3, 0), np.float32), [1, 2, 3])
    with pytest.raises(UserError, match="3 images"):
        ViewSampler(np.empty((3, 0), np.float32), [1, 2])
