"""info, card, preview, traverse and --dry-run on a real dataset."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from farm.conftest import TINY
from PIL import Image

from ident3d.cli import main
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.latents.exact.names import NAMES
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.shard import read_shard
from ident3d.looking.pictures import preview, traverse

pytestmark = pytest.mark.bpy


def run(*words: str) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_mean_and_std_are_those_of_the_pixels(dataset64: Path) -> None:
    folder = open_folder(dataset64)
    pixels = np.concatenate([read_shard(folder.shard_path(entry)).images for entry in folder.entries]) / 255
    np.testing.assert_allclose(folder.description.pixel_mean, pixels.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(folder.description.pixel_std, pixels.std((0, 1, 2)), rtol=1e-9)


def test_info_as_table_and_json(dataset64: Path) -> None:
    table = run("info", str(dataset64))
    assert "64 of 32×32 pixels" in table
    report = json.loads(run("info", str(dataset64), "--json"))
    assert report["finished"] == 64
    assert report["complete"] is True
    assert report["attainable_r2"]["object_hue"] == pytest.approx(0.963, abs=5e-4)
    assert all(f"{name} " in table for name in NAMES)


def test_verify_as_json(dataset64: Path) -> None:
    report = json.loads(run("verify", str(dataset64), "--json"))
    assert report["sound"] is True
    assert report["good"] == 64


def test_the_card_states_settings_and_shows_images(dataset64: Path) -> None:
    card = (dataset64 / "README.md").read_text()
    assert "drawn with seed 0, split train" in card
    assert "| object_hue | 0.9630 |" in card
    with Image.open(dataset64 / "sample.png") as sample:
        assert sample.width > 6 * 32


def test_preview_shows_the_images_in_order(dataset64: Path, tmp_path: Path) -> None:
    sheet = np.asarray(preview(dataset64, count=20, columns=5))
    folder = open_folder(dataset64)
    images = np.concatenate([read_shard(folder.shard_path(entry)).images for entry in folder.entries])
    seventh = np.repeat(np.repeat(images[6], 4, 0), 4, 1)  # second row, second column; 32 pixels enlarged to 128
    np.testing.assert_array_equal(sheet[4 + 132 : 4 + 132 + 128, 4 + 132 : 4 + 132 + 128], seventh)
    run("preview", str(dataset64), "--with-latents", "--n", "3", "--out", str(tmp_path / "sheet.png"))
    with Image.open(tmp_path / "sheet.png") as picture:
        assert picture.height > 132


def test_traverse_varies_one_latent_a_column(tmp_path: Path) -> None:
    sheet = np.asarray(traverse(TINY, steps=3, show_progress=False)).astype(int)
    assert sheet.shape[1] > 10 * 128
    run("traverse", "--values", "2", "--size", "32", "--quality", "draft", "--out", str(tmp_path / "t.png"))
    assert (tmp_path / "t.png").exists()


def test_dry_run_measures_and_writes_nothing(tmp_path: Path) -> None:
    words = ["render", "--n", "1000", "--size", "32", "--quality", "draft", "--out", str(tmp_path / "data")]
    report = json.loads(run(*words, "--dry-run", "--json"))
    assert report["images"] == 1000
    assert 0 < report["seconds_per_image"] < 5
    assert 500 < report["bytes_per_image"] < 10_000
    assert not (tmp_path / "data").exists()
    elsewhere = CliRunner().invoke(main, [*words, "--dry-run", "--scheduler", "tcp://127.0.0.1:1"])
    assert "core-hours" in elsewhere.stdout
    assert "this machine" in elsewhere.stderr


def test_the_default_folder_is_named_after_what_differs(tmp_path: Path) -> None:
    words = ["render", "--n", "8", "--size", "32", "--quality", "draft", "--fix", "rotation=0", "--root", str(tmp_path)]
    run(*words, "--workers", "1")
    names = [folder.name for folder in tmp_path.iterdir()]
    assert names == ["3dident-train-8-32px-draft-rotation_phi=0-rotation_theta=0-rotation_psi=0"]


def test_ranges_and_fixed_factors_are_recorded_and_kept(tmp_path: Path) -> None:
    words = ["render", "--n", "8", "--size", "32", "--quality", "draft", "--out", str(tmp_path / "data")]
    run(*words, "--fix", "rotation=0.5", "--position-range", "1", "--workers", "1")
    folder = open_folder(tmp_path / "data")
    shard = read_shard(folder.shard_path(folder.entries[0]))
    assert (shard.raw_latents[:, 3:6] == 0.5).all()
    np.testing.assert_array_equal(shard.scene_latents[:, :3], shard.raw_latents[:, :3])
    assert folder.description.settings["world"]["position_range"] == 1
    assert "held fixed" in run("info", str(tmp_path / "data"))


def test_fresh_deletes_only_what_the_manifest_lists(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    render(8, TINY, out=folder, workers=1, show_progress=False)
    (folder / "notes.txt").write_text("mine")
    (folder / "shards" / "mine.h5").write_text("mine")
    done = render(8, Recipe(size=24, quality="draft"), out=folder, workers=1, fresh=True, show_progress=False)
    assert done.rendered == 8
    assert (folder / "notes.txt").read_text() == (folder / "shards" / "mine.h5").read_text() == "mine"
    assert open_folder(folder).description.size == 24
