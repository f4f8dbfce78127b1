"""Image i depends on the recipe and i alone: not on workers, shard size, the way n grew, or interruptions."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from farm.conftest import TINY, contents

from ident3d.farm.render import render
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.shard import read_shard

pytestmark = pytest.mark.bpy


def images(folder: Path) -> np.ndarray:
    opened = open_folder(folder)
    return np.concatenate([read_shard(opened.shard_path(entry)).images for entry in opened.entries])


def test_three_workers_write_the_same_bytes_as_one(dataset64: Path, tmp_path: Path) -> None:
    render(64, TINY, out=tmp_path / "data", workers=3, shard_size=16, show_progress=False)
    assert contents(tmp_path / "data") == contents(dataset64)


def test_shard_size_does_not_change_images(dataset64: Path, tmp_path: Path) -> None:
    render(64, TINY, out=tmp_path / "data", workers=1, shard_size=64, show_progress=False)
    assert len(open_folder(tmp_path / "data").entries) == 1
    np.testing.assert_array_equal(images(tmp_path / "data"), images(dataset64))


def test_a_dataset_grown_in_steps_is_the_same_as_one_rendered_at_once(dataset64: Path, tmp_path: Path) -> None:
    for n in (24, 40, 64):  # 24 ends in the middle of a shard of 16
        done = render(n, TINY, out=tmp_path / "data", workers=1, shard_size=16, show_progress=False)
        assert done.complete
        assert open_folder(tmp_path / "data").finished == n
    assert done.rendered == 24
    assert contents(tmp_path / "data") == contents(dataset64)


def test_a_complete_dataset_is_left_alone(dataset64: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset64, tmp_path / "data")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "data").rglob("*") if file.name != "data"}
    assert render(64, TINY, out=tmp_path / "data", show_progress=False).rendered == 0
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_given_latents_render_as_the_same_latents_drawn(dataset64: Path, tmp_path: Path) -> None:
    opened = open_folder(dataset64)
    raw = read_shard(opened.shard_path(opened.entries[1])).raw_latents[:4]
    drawn = np.concatenate([read_shard(opened.shard_path(entry)).raw_latents for entry in opened.entries])[:4]
    for name, rows in {"first": drawn, "other": raw}.items():
        np.save(tmp_path / f"{name}.npy", rows)
        render(None, TINY, out=tmp_path / name, latents=tmp_path / f"{name}.npy", workers=1, show_progress=False)
    np.testing.assert_array_equal(images(tmp_path / "first"), images(dataset64)[:4])
    assert not np.array_equal(images(tmp_path / "other"), images(dataset64)[:4])
