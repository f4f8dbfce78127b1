"""Rendered views: the same bytes from any workers, resumed and verified; the folder says what is shared."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from farm.conftest import contents

from ident3d import ImageDataset, Recipe, Views, World, info, preview, verify
from ident3d.cli import main
from ident3d.farm.render import render
from ident3d.loaders.format.latents_source import blocks_of

pytestmark = pytest.mark.bpy
RECIPE = Recipe(World(), size=16, quality="draft", views=Views(2, private=("hue", "x")))


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 views in shards of 3, so that instances lie across them; to be read, not changed."""
    path = tmp_path_factory.mktemp("views") / "data"
    render(10, RECIPE, out=path, workers=1, shard_size=3, show_progress=False)
    return path


def test_workers_and_growth_do_not_change_bytes(folder: Path, tmp_path: Path) -> None:
    for n in (4, 10):
        render(n, RECIPE, out=tmp_path / "data", workers=2, shard_size=3, show_progress=False)
    assert contents(tmp_path / "data") == contents(folder)


def test_views_are_stored_listed_verified_and_resumed(folder: Path, tmp_path: Path) -> None:
    images = ImageDataset(folder)
    assert images.columns == ("instance", "view")
    np.testing.assert_array_equal(images.column("instance"), np.arange(10) // 2)
    np.testing.assert_array_equal(images.column("view"), np.arange(10) % 2)
    blocks = blocks_of(images.parts[0].folder.description.settings)
    assert blocks["private"] == ("x", "object_hue", "spotlight_hue", "ground_hue")
    for text in (info(folder).table(), (folder / "README.md").read_text()):
        assert "5 of 2 views" in text
        assert "x, object_hue, spotlight_hue, ground_hue: drawn anew" in text
    z = images.all_latents()[0].reshape(5, 2, 10)
    shared = [k for k, name in enumerate(images.world.names) if name in blocks["shared"]]
    np.testing.assert_array_equal(z[:, 0, shared], z[:, 1, shared])
    sheet = preview(folder, by_sequence=True, count=4)
    assert sheet.width < 3 * sheet.height
    assert verify(folder, show_progress=False).sound
    shutil.copytree(folder, tmp_path / "data")
    shards = sorted((tmp_path / "data/shards").iterdir())
    shards[1].unlink()
    with h5py.File(shards[2], "r+") as file:
        file["view"][0] += 1
    assert not verify(tmp_path / "data", show_progress=False).sound
    verify(tmp_path / "data", repair=True, show_progress=False)
    done = render(10, RECIPE, out=tmp_path / "data", shard_size=3, workers=1, show_progress=False)
    assert done.rendered == 6
    kept = {name: digest for name, digest in contents(tmp_path / "data").items() if name != "sample.png"}
    assert kept == {name: digest for name, digest in contents(folder).items() if name != "sample.png"}


def test_other_views_than_the_folders_are_refused(folder: Path) -> None:
    words = ["render", "--size", "16", "--quality", "draft", "--shard-size", "3", "--out", str(folder)]
    assert "source.views" in run(*words, "--n", "10", "--views", "2", "--private", "hue", code=2)
    assert "source.views" in run(*words, "--n", "10", code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--views", "1", "--private", "x"], "2 to 100"),
        (["--views", "2"], "same"),
        (["--views", "2", "--private", "hues_"], "'hues'"),
        (["--views", "2", "--private", "position,rotation,hue,spotlight_position"], "nothing in common"),
        (["--private", "x"], "--views 2"),
        (["--views", "2", "--private", "x", "--sigma", "0.2"], "--cond"),
        (["--views", "2", "--private", "x", "--switch", "0.2"], "--sequence"),
        (["--views", "2", "--private", "x", "--sequence", "2"], "one of the two"),
        (["--views", "3", "--private", "x"], "9 or 12"),
        (["--views", "2", "--private", "x", "--latents", "none.npy"], "--latents"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], said: str, tmp_path: Path) -> None:
    error = run("render", "--n", "10", "--out", str(tmp_path / "data"), *words, code=2)
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "data").exists()


def test_views_from_other_cameras(folder: Path, tmp_path: Path) -> None:
    """Those of one z: with shared latents alone, and the published camera, an image is that of the plain dataset."""
    words = ["render", "--size", "16", "--quality", "draft", "--shard-size", "3", "--n", "6"]
    words += ["--cameras", "front,back", "--out"]
    for workers in ("1", "2"):
        run(*words, str(tmp_path / workers), "--workers", workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    images = ImageDataset(tmp_path / "1")
    assert images.blocks == {}
    assert "front, back" in info(tmp_path / "1").table()
    z = images.all_latents()[0]
    np.testing.assert_array_equal(z[::2], z[1::2])
    plain = Recipe(World(), size=16, quality="draft")
    render(6, plain, out=tmp_path / "plain", latents=tmp_path / "1/all_latents.npy", workers=1, show_progress=False)
    one, other = (ImageDataset(tmp_path / name).images(range(6)) for name in ("1", "plain"))
    assert [bool((a == b).all()) for a, b in zip(one, other, strict=True)] == [True, False] * 3
    assert verify(tmp_path / "1", show_progress=False).sound


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cameras", "front,side"], "front, right, back, left"),
        (["--cameras", "front"], "2 to 100"),
        (["--cameras", "front,front"], "same"),
        (["--cameras", "front,back", "--views", "3"], "3 views"),
        (["--cameras", "front,back", "--cond", "normal"], "private"),
    ],
)
def test_bad_cameras_are_one_sentence(words: list[str], said: str, tmp_path: Path) -> None:
    error = run("render", "--n", "10", "--out", str(tmp_path / "data"), *words, code=2)
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "data").exists()
