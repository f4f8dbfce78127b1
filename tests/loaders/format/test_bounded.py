"""A shard that lies about its size, or inflates far beyond it, never takes more memory than one of its images."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from capped import capped
from synthetic import make_dataset

from ident3d.loaders.format.shard import Shard, encode_shard, read_settings, read_shard

READ = """
from ident3d.loaders.format.shard import read_settings, read_shard
cap()
for path in map(Path, sys.argv[1:]):
    attempt(lambda: (sum(int(image.max()) for image in read_shard(path).images), read_settings(path)))
"""


def replace(file: h5py.File, name: str, **options: object) -> None:
    del file[name]
    file.create_dataset(name, **options)


def huge_number(file: h5py.File) -> None:
    """`bytes()` of a number is so many zeros."""
    file.attrs["settings"] = np.int64(2**33)


def wide_attribute(file: h5py.File) -> None:
    file.attrs["settings"] = np.zeros(4000, np.int64)


def text_of_varying_length(file: h5py.File) -> None:
    file.attrs["settings"] = "{}"


def list_of_settings(file: h5py.File) -> None:
    file.attrs["settings"] = np.bytes_("[" * 30_000 + "]" * 30_000)


def varying_latents(file: h5py.File) -> None:
    """A million entries could all name the same megabyte of the file's heap."""
    kind = h5py.vlen_dtype(np.dtype(np.uint8))
    replace(file, "raw_latents", shape=(8,), dtype=kind)
    for i in range(8):
        file["raw_latents"][i] = np.zeros(1000, np.uint8)


def more_data(file: h5py.File) -> None:
    file.create_dataset("more", data=["text"] * 8, dtype=h5py.string_dtype())


def chunked_latents(file: h5py.File) -> None:
    """A few rows in a chunk of two gigabytes, which HDF5 would inflate to read them."""
    replace(
        file, "raw_latents", shape=(8, 10), maxshape=(None, None), dtype=np.float32, chunks=(2**14, 2**14),
        compression="gzip",
    )  # fmt: skip


def wide_latents(file: h5py.File) -> None:
    replace(file, "raw_latents", shape=(8, 2**24), dtype=np.float32)


def many_images(file: h5py.File) -> None:
    """More images than the file has chunks: a list of their places would fill the memory."""
    replace(file, "images", shape=(5_000_000, 1, 1, 3), dtype=np.uint8, chunks=(1, 1, 1, 3), compression="gzip")


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (huge_number, "settings"),
        (wide_attribute, "settings"),
        (text_of_varying_length, "settings"),
        (list_of_settings, "settings"),
        (varying_latents, "raw_latents"),
        (more_data, "more"),
        (chunked_latents, "raw_latents"),
        (wide_latents, "raw_latents"),
        (many_images, "claims|chunk"),
    ],
)
def test_a_hostile_shard_is_one_sentence(tmp_path: Path, change: Callable[[h5py.File], None], fact: str) -> None:
    path = make_dataset(tmp_path / "set", 8) / "shards/00000.h5"
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(ValueError, match=rf"(?s)^[^\n]*00000\.h5[^\n]*({fact})[^\n]*$"):
        (read_settings if fact == "settings" else read_shard)(path)


def write_black(path: Path, n: int) -> None:
    """Write a sound shard of black images of 8192 pixels: 200 MB each, from a file of 200 KB an image."""
    one = np.zeros((1, 8192, 8192, 3), np.uint8)
    rows = np.zeros((1, 10), np.float32)
    path.write_bytes(encode_shard(Shard(one, rows, rows, np.arange(1)), {}))
    with h5py.File(path, "r+") as file:
        _, chunk = file["images"].id.read_direct_chunk((0, 0, 0, 0))
        replace(file, "images", shape=(n, *one.shape[1:]), dtype=np.uint8, chunks=one.shape, compression="gzip")
        for i in range(n):
            file["images"].id.write_direct_chunk((i, 0, 0, 0), chunk)
        for name in ("raw_latents", "scene_latents"):
            replace(file, name, data=np.zeros((n, 10), np.float32))
        replace(file, "index", data=np.arange(n))


def test_memory_stays_below_the_cap(tmp_path: Path) -> None:
    paths = []
    for change in (huge_number, chunked_latents, wide_latents, varying_latents, many_images):
        path = make_dataset(tmp_path / change.__name__, 8) / "shards/00000.h5"
        with h5py.File(path, "r+") as file:
            change(file)
        paths.append(path)
    black = tmp_path / "black.h5"
    write_black(black, 8)
    assert black.stat().st_size < 3_000_000
    found = capped(READ, *paths, black)
    assert [line.partition(" ")[0] for line in found] == ["refused"] * 5 + ["result"]
    assert found[-1] == "result (0, {})"
