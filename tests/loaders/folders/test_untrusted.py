"""Nothing read from disk is trusted: shards that reach outside themselves, lie about their size, or are no shards."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders import folder, lifecycle
from ident3d.loaders.format import description as recorded
from ident3d.loaders.format import manifest
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.shard import read_shard
from ident3d.loaders.format.shard_layout import check_layout
from ident3d.looking.info import info


def reseal(path: Path) -> None:
    """Enter a changed first shard with its new size and hash, as whoever made a hostile dataset would."""
    description = recorded.read_description(path)
    entries = manifest.read_entries(path)
    data = folder.Folder(path, description, tuple(entries)).shard_path(entries[0]).read_bytes()
    changed = json.loads(entries[0].line()) | {"bytes": len(data), "sha256": sha256(data)}
    manifest.write_entries(path, [manifest.parse_line(json.dumps(changed)), *entries[1:]])
    lifecycle.finish(path, description, manifest.read_entries(path))


def replace(file: h5py.File, name: str, **options: object) -> None:
    """The data set again, with the same values, made with other options."""
    values = file[name][()]
    del file[name]
    file.create_dataset(name, data=values, **options)


def external_latents(file: h5py.File) -> None:
    file.move("raw_latents", "kept")
    del file["kept"]
    file["raw_latents"] = h5py.ExternalLink("/elsewhere.h5", "raw_latents")


def external_images(file: h5py.File) -> None:
    del file["images"]
    file["images"] = h5py.ExternalLink("/elsewhere.h5", "images")


def soft_link_of_latents(file: h5py.File) -> None:
    del file["raw_latents"]
    file["raw_latents"] = h5py.SoftLink("/scene_latents")


def external_storage_of_latents(file: h5py.File) -> None:
    shape = file["raw_latents"].shape
    del file["raw_latents"]
    external = [("/etc/hostname", 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("raw_latents", shape, np.float32, external=external)


def virtual_latents(file: h5py.File) -> None:
    shape = file["raw_latents"].shape
    del file["raw_latents"]
    layout = h5py.VirtualLayout(shape, np.float32)
    layout[:] = h5py.VirtualSource("elsewhere.h5", "raw_latents", shape)
    file.create_virtual_dataset("raw_latents", layout)


def group(file: h5py.File) -> None:
    file.create_group("more")


def other_filter(file: h5py.File) -> None:
    replace(file, "images", chunks=(1, 16, 16, 3), compression="gzip", shuffle=True)


def huge(file: h5py.File) -> None:
    del file["images"]
    file.create_dataset("images", (8, 40000, 40000, 3), np.uint8, chunks=(1, 40000, 40000, 3), compression="gzip")


def vast_latents(file: h5py.File) -> None:
    del file["raw_latents"]
    file.create_dataset("raw_latents", (2**40, 10), np.float32, chunks=(2**20, 10), compression="gzip")


def missing_chunk(file: h5py.File) -> None:
    del file["images"]
    file.create_dataset("images", (8, 16, 16, 3), np.uint8, chunks=(1, 16, 16, 3), compression="gzip")


def other_latents(file: h5py.File) -> None:
    values = file["raw_latents"][()]
    del file["raw_latents"]
    file["raw_latents"] = values.astype(np.float64)


def fewer_latents(file: h5py.File) -> None:
    values = file["raw_latents"][:5]
    del file["raw_latents"]
    file["raw_latents"] = values


def newer(file: h5py.File) -> None:
    file.attrs["format_version"] = 2


def something_else(file: h5py.File) -> None:
    del file.attrs["format"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (external_latents, "link"),
        (external_images, "link"),
        (soft_link_of_latents, "link"),
        (external_storage_of_latents, "another file"),
        (virtual_latents, "another file"),
        (group, "group"),
        (other_filter, "gzip"),
        (huge, "38,400,000,000 bytes"),
        (vast_latents, "43,980,465,111,040 bytes"),
        (missing_chunk, "an image without a chunk"),
        (other_latents, "raw_latents as float64"),
        (fewer_latents, r"raw_latents of shape \(5, 10\)"),
        (newer, "format 2.* format 1"),
        (something_else, "not an ident3d shard"),
    ],
)
def test_a_hostile_shard_is_refused(tmp_path: Path, change: Callable[[h5py.File], None], sentence: str) -> None:
    path = make_dataset(tmp_path / "set", 16)
    with h5py.File(path / "shards/00000.h5", "r+") as file:
        check_layout(file, path)
        change(file)
    reseal(path)
    data = ImageDataset(path)
    readers = {"latents": data.all_latents, "group": lambda: read_shard(path / "shards/00000.h5")}
    read = next((readers[word] for word in readers if word in change.__name__), lambda: data[0])
    with pytest.raises(UserError, match=f"00000.h5.*{sentence}"):
        read()
    np.testing.assert_array_equal(data.images([8]).shape, (1, 16, 16, 3))  # the other shard serves on


@pytest.mark.parametrize("name", ["../00000.h5", "/etc/00000.h5", "00000.h5/../../x.h5", "0.h5", "00000.hdf5"])
def test_shard_names_must_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    path = make_dataset(tmp_path / "set", 16)
    text = (path / manifest.MANIFEST_FILE).read_text()
    (path / manifest.MANIFEST_FILE).write_text(text.replace('"00000.h5"', json.dumps(name)))
    with pytest.raises(UserError, match="name of a shard"):
        ImageDataset(path)


def test_a_changed_manifest_or_description_is_refused(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 16)
    good = (path / manifest.MANIFEST_FILE).read_text()
    (path / manifest.MANIFEST_FILE).write_text(good.replace('"count": 8', '"count": 7', 1))
    with pytest.raises(UserError, match="digest"):
        ImageDataset(path)
    (path / manifest.MANIFEST_FILE).write_text(good)
    content = json.loads((path / recorded.DATASET_FILE).read_text())
    (path / recorded.DATASET_FILE).write_text(json.dumps(content | {"n": 15}))
    with pytest.raises(UserError, match="digest"):
        ImageDataset(path)
    content["format_version"] = 9
    (path / recorded.DATASET_FILE).write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"format 9.* format 1"):
        ImageDataset(path)


@pytest.mark.parametrize(
    ("field", "value"), [("bytes", "x"), ("bytes", [None]), ("bytes", -1), ("shards_sha256", 1), ("all_latents", {})]
)
def test_a_signed_description_with_a_field_of_another_kind_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    path = make_dataset(tmp_path / "set", 8)
    content = json.loads((path / recorded.DATASET_FILE).read_text()) | {field: value}
    del content["digest"]
    (path / recorded.DATASET_FILE).write_text(json.dumps(content | {"digest": recorded.digest(content)}))
    with pytest.raises(UserError, match=field):
        info(path)


def test_a_dataset_of_no_images_is_refused(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "empty", 8)
    description = recorded.read_description(path)
    sealed = {**description.as_dict(), "n": 0, "shards_sha256": sha256(b"")}
    del sealed["digest"]
    plain = json.loads(json.dumps(sealed))
    (path / recorded.DATASET_FILE).write_text(json.dumps(plain | {"digest": recorded.digest(plain)}))
    (path / manifest.MANIFEST_FILE).write_text("")
    with pytest.raises(UserError, match="empty"):
        ImageDataset(path)
