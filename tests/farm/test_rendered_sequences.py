"""Rendered sequences: the same bytes from any workers, resumed and verified; pairs in time are as wide as asked."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from farm.conftest import contents

from ident3d import ImageDataset, Recipe, Sequences, UserError, World, info, verify
from ident3d.cli import main
from ident3d.farm.render import render
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.description import DATASET_FILE

pytestmark = pytest.mark.bpy
RECIPE = Recipe(World(), size=16, quality="draft", sequence=Sequences(3, sigma=0.2))


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 frames in shards of 4, so that sequences lie across them; to be read, not changed."""
    path = tmp_path_factory.mktemp("sequences") / "data"
    render(18, RECIPE, out=path, workers=1, shard_size=4, show_progress=False)
    return path


def test_workers_and_growth_do_not_change_bytes(folder: Path, tmp_path: Path) -> None:
    for n in (6, 18):
        render(n, RECIPE, out=tmp_path / "data", workers=2, shard_size=4, show_progress=False)
    assert contents(tmp_path / "data") == contents(folder)


def test_an_image_is_that_of_its_latents_alone(folder: Path, tmp_path: Path) -> None:
    given = folder / "all_latents.npy"
    plain = Recipe(World(), size=16, quality="draft")
    render(None, plain, out=tmp_path / "data", latents=given, workers=1, show_progress=False)
    one, other = (ImageDataset(path).images(range(18)) for path in (folder, tmp_path / "data"))
    np.testing.assert_array_equal(one, other)


def test_frames_are_stored_verified_and_resumed(folder: Path, tmp_path: Path) -> None:
    images = ImageDataset(folder)
    assert images.columns == ("sequence", "frame")
    np.testing.assert_array_equal(images.column("sequence"), np.arange(18) // 3)
    np.testing.assert_array_equal(images.column("frame"), np.arange(18) % 3)
    assert {"6 of 3 frames", "sigma 0.2"} <= {part.strip() for row in info(folder).table().splitlines()
                                              for part in row.replace("frame before, ", "  ").split("  ")}  # fmt: skip
    assert verify(folder, show_progress=False).sound
    shutil.copytree(folder, tmp_path / "data")
    shards = sorted((tmp_path / "data/shards").iterdir())
    shards[1].unlink()
    with h5py.File(shards[2], "r+") as file:
        file["frame"][0] += 1
    assert not verify(tmp_path / "data", show_progress=False).sound
    verify(tmp_path / "data", repair=True, show_progress=False)
    done = render(18, RECIPE, out=tmp_path / "data", shard_size=4, workers=1, show_progress=False)
    assert done.rendered == 8
    kept = {name: digest for name, digest in contents(tmp_path / "data").items() if name != "sample.png"}
    assert kept == {name: digest for name, digest in contents(folder).items() if name != "sample.png"}


def test_other_sequences_than_the_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    words = ["render", "--size", "16", "--quality", "draft", "--shard-size", "4", "--out", str(folder)]
    assert "source.sequence.sigma: 0.2 there, 0.1" in run(*words, "--n", "18", "--sequence", "3", code=2)
    assert "18" in run(*words, "--n", "20", "--sequence", "3", code=2)
    assert "--sequence" in run(*words, "--n", "18", "--sigma", "0.2", code=2)
    latents = ["--latents", str(folder / "all_latents.npy")]
    assert "--latents" in run(*words, "--sequence", "3", *latents, code=2)
    changed = tmp_path / "data"
    shutil.copytree(folder, changed)
    content = json.loads((changed / DATASET_FILE).read_text())
    content["settings"]["source"]["sequence"]["cond"] = "open('x', 'w')"
    (changed / DATASET_FILE).write_text(json.dumps(content))
    with pytest.raises(UserError, match="digest"):
        open_folder(changed)


def test_environments_and_sequences_are_verified(tmp_path: Path) -> None:
    words = ["render", "--size", "16", "--quality", "draft", "--workers", "1", "--root", str(tmp_path), "--n", "8"]
    words += ["--sequence", "2", "--cond", "uniform", "--sigma", "none", "--only", "rotation"]
    run(*words, "--environment", "plain:", "--environment", "right: y=0.5; z~normal(0, 0.1)")
    (folder,) = tmp_path.glob("3dident-*")
    assert "2frames-uniform" in folder.name
    assert "2environments" in folder.name
    assert verify(folder, show_progress=False).sound
    images = ImageDataset(folder)
    assert images.column("environment").tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert (images.all_latents()[0][[2, 3, 6, 7], 1] == 0.5).all()
    with h5py.File(next((folder / "shards").iterdir())) as file:
        np.testing.assert_array_equal(file["environment"], images.column("environment"))


@pytest.mark.slow
def test_100_frames_of_100_sequences_are_the_same_bytes_from_any_workers(tmp_path: Path) -> None:
    recipe = Recipe(World(), size=16, quality="draft", sequence=Sequences(100, sigma=0.1))
    for workers in (1, 3):
        render(10_000, recipe, out=tmp_path / str(workers), workers=workers, shard_size=256, show_progress=False)
    assert contents(tmp_path / "1") == contents(tmp_path / "3")
