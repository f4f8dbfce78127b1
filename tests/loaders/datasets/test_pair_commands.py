"""The commands pack, index, pairs, import, export and bench loader, as a user runs them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from synthetic import make_dataset

from ident3d.bench.search import DRAWS
from ident3d.cli import main
from ident3d.loaders.datasets.image_dataset import ImageDataset


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def as_json(*words: object) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_dataset(tmp_path / "set", 300, shard_size=64)


def test_pack(path: Path) -> None:
    figures = as_json("pack", path)
    assert figures["bytes"] == Path(figures["path"]).stat().st_size == 300 * 16 * 16 * 3
    assert ImageDataset(path).packed
    assert "images.u8: 0.2 MB" in run("pack", path).stdout


def test_pairs_prints_and_plots_what_finite_data_does(path: Path, tmp_path: Path) -> None:
    figures = as_json("pairs", path, "--pairs", 4000, "--out", tmp_path / "plot.png")
    assert len(figures["latents"]) == 10
    for row in figures["latents"]:
        # E|z̃ - z| of a normal of width .1 truncated to the box around a uniform z; few images make it much wider
        assert row["asked_mean"] == pytest.approx(0.0775, abs=0.002)
        assert row["realised_mean"] > 3 * row["asked_mean"]
        assert 0.3 < row["ks"] < 1
    picture = np.asarray(Image.open(tmp_path / "plot.png").convert("RGB"))
    assert picture.shape[0] > 400
    assert (np.abs(picture.astype(int) - [192, 57, 43]).max(axis=2) < 10).sum() > 500  # the red line is drawn
    table = run("pairs", path, "--pairs", 500).stdout
    assert "300 images, search exact" in table
    assert (tmp_path / "set-pairs.png").is_file()
    for out, fact in {"plot.xyz": ".png", "no/plot.png": str(tmp_path / "no")}.items():
        refused = run("pairs", path, "--pairs", 500, "--out", tmp_path / out)
        assert refused.exit_code == 2
        assert fact in refused.stderr


def test_realised_pairs_are_as_asked_where_images_are_dense(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 300)
    figures = as_json("pairs", path, "--cond", "uniform", "--sigma", 2, "--pairs", 3000)
    # so wide a draw is hardly changed by going to the nearest of 300 images, but for the edges they do not reach
    assert np.mean([row["realised_mean"] / row["asked_mean"] for row in figures["latents"]]) == pytest.approx(
        0.9, abs=0.1
    )


def test_uniform_without_a_width_and_a_precision(path: Path, tmp_path: Path) -> None:
    words = ("--pairs", 500, "--out", tmp_path / "plot.png")
    figures = as_json("pairs", path, "--cond", "uniform", "--sigma", "none", *words)
    assert figures["latents"][0]["asked_mean"] == pytest.approx(2 / 3, abs=0.02)  # independent of z
    periodic = make_dataset(tmp_path / "periodic", 100, scene="3dident-periodic")
    figures = as_json("pairs", periodic, "--cond", "normal,rejected_normal", "--lambda", 10, *words)
    assert len(figures["latents"]) == 11


def test_the_power_of_gennorm_is_that_of_train_and_mixing(path: Path, tmp_path: Path) -> None:
    words = ("--cond", "gennorm", "--sigma", 0.2, "--pairs", 2000, "--out", tmp_path / "plot.png")
    flat, peaked = (as_json("pairs", path, *words, "--cond-p", p)["latents"][0]["asked_mean"] for p in (8, 1))
    # E|z̃ - z| at one scale falls with the power, and the box cuts the long tail of the power 1
    assert flat < 0.12 < peaked


def test_index_says_when_exact_is_used_instead(path: Path) -> None:
    done = run("index", path, "--json")
    assert done.stderr == (
        "Note: IVF1024_HNSW32,Flat wants 40,000 images and there are 300: the exact search is used instead.\n"
    )
    figures = json.loads(done.stdout)
    assert (figures["search"], figures["recall"], figures["file"]) == ("exact", 1.0, None)
    assert as_json("index", path, "--search", "flat")["recall"] == 1.0


def test_export_and_import(path: Path, tmp_path: Path) -> None:
    assert as_json("export", path, tmp_path / "out")["written"] == 300
    assert as_json("import", tmp_path / "out", tmp_path / "back", "--workers", 1, "--licence", "CC0")["imported"] == 300
    assert "- licence: CC0" in (tmp_path / "back/README.md").read_text()
    assert (
        "300 images, 0 of them imported now"
        in run("import", tmp_path / "out", tmp_path / "back", "--licence", "CC0").stdout
    )
    assert run("info", tmp_path / "back").exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("pack", "{}/nowhere"), "There is no folder"),
        (("pairs", "{}/set", "--sigma", "0"), "sigma must be positive"),
        (("pairs", "{}/set", "--only", "huees"), "Did you mean 'hues'"),
        (("pairs", "{}/set", "--sigma", "wide"), "takes a number, or none"),
        (("pairs", "{}/set", "--pairs", "0"), "At least one pair"),
        (("pairs", "{}/set", "--same-class"), "have no classes"),
        (("pairs", "{}/set", "--lambda", "5"), "rejected_normal"),
        (("pairs", "{}/set", "--kappa", "5"), "vmf"),
        (("index", "{}/set", "--search", "fast"), "There is no search 'fast'"),
        (("import", "{}/nowhere", "{}/out"), "There is no folder or archive"),
        (("import", "{}/set", "{}/out"), "No published layout was found"),
        (("export", "{}/nowhere", "{}/out"), "There is no folder"),
        (("bench", "loader", "{}/set", "--batches", "1"), "two batches at least"),
    ],
)
def test_mistakes_get_one_sentence(path: Path, tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = run(*(word.format(tmp_path) for word in words))
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow  # a process for each variant, each importing torch: half a minute
def test_bench_loader_measures_every_variant(path: Path) -> None:
    words = ("--batch", 16, "--batches", 2, "--search-images", 3000, "--opening-images", 600)
    figures = as_json("bench", "loader", path, *words)
    assert len(figures["rates"]) == 6
    assert all(rate["pairs_per_second"] > 0 for rate in figures["rates"])
    found = [(cost["search"], cost["drawn"], cost["recall"]) for cost in figures["searches"]]
    assert found == [(search, drawn, 1.0) for search in ("exact", "flat") for drawn in DRAWS]
    assert [(opening["images"], opening["shards"]) for opening in figures["openings"]] == [(600, 10)] * 2
