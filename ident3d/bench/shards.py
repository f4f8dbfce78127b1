"""What a stored image costs in bytes, encoding and decoding, filter by filter: why shards are deflated as they are."""

import io
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import deflate
import h5py
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.bench.measure import Column, least_cpu_seconds, table
from ident3d.errors import UserError
from ident3d.loaders.folders.folder import checked_shards, open_folder

Images = NDArray[np.uint8]
LEVELS = (4, 6, 9)


@dataclass(frozen=True)
class FilterCost:
    """Mean cost of one image: bytes, CPU milliseconds to encode and to decode, and whether plain h5py can read it."""

    name: str
    bytes: float
    encode_ms: float
    decode_ms: float
    plain_h5py: bool


@dataclass(frozen=True)
class ShardBench:
    """Costs of all filters on the same images; the first is the baseline of the ratios."""

    images: int
    size: int
    costs: tuple[FilterCost, ...]

    def table(self) -> str:
        base = self.costs[0]
        columns: list[Column] = [
            ("filter", "{0.name}"),
            ("KB", lambda cost: f"{cost.bytes / 1e3:.1f}"),
            ("encode ms", "{0.encode_ms:.2f}"),
            ("decode ms", "{0.decode_ms:.3f}"),
            ("decode speed", lambda cost: f"{base.decode_ms / cost.decode_ms:.2f}"),
            ("plain h5py", lambda cost: "yes" if cost.plain_h5py else "no"),
        ]
        return table(self.costs, columns)


def bench_shards(path: Path | str, *, images: int = 64, repeats: int = 3) -> ShardBench:
    """Measure every candidate filter on the first images of a dataset, in CPU milliseconds an image."""
    if images < 1 or repeats < 1:
        raise UserError("The filters are measured on at least one image.")
    folder = open_folder(path)
    found = list(islice(chain.from_iterable(shard.images for shard in checked_shards(folder)), images))
    if not found:
        raise UserError(f"{path} has no finished images yet.")
    costs = [
        through_hdf5(found, repeats, f"HDF5 gzip {level}", compression="gzip", compression_opts=level)
        for level in LEVELS
    ]
    # This is what shards use: chunks that plain HDF5 can inflate, made by a faster library.
    costs += [through_libdeflate(found, repeats, level) for level in (*LEVELS, 12)]
    costs += [through_hdf5(found, repeats, "HDF5 lzf", compression="lzf")]
    # What other filters would give; they need a plugin that plain h5py does not have.
    if find_spec("hdf5plugin"):
        import hdf5plugin

        for codec in ("lz4", "zstd"):
            options = dict(hdf5plugin.Blosc(cname=codec, clevel=9, shuffle=hdf5plugin.Blosc.NOSHUFFLE))
            costs.append(through_hdf5(found, repeats, f"HDF5 blosc {codec} 9", plain=False, **options))
    costs.append(through(found, repeats, "PNG by Pillow", png, unpng, plain=False))
    return ShardBench(len(found), folder.description.size, tuple(costs))


def through(
    images: Sequence[Images],
    repeats: int,
    name: str,
    encode: Callable[[Images], bytes],
    decode: Callable[[bytes], object],
    plain: bool,
) -> FilterCost:
    """Measure encoding and decoding each image by these functions; decoding is repeated, the fastest round counts."""
    stored: list[bytes] = []
    encoding = least_cpu_seconds(lambda _: stored.extend(map(encode, images)), 1)
    decoding = least_cpu_seconds(lambda _: deque(map(decode, stored), maxlen=0), repeats)
    each = 1e3 / len(images)
    return FilterCost(name, sum(map(len, stored)) / len(images), encoding * each, decoding * each, plain)


def through_libdeflate(images: Sequence[Images], repeats: int, level: int) -> FilterCost:
    size = images[0].nbytes
    return through(
        images,
        repeats,
        f"gzip chunks by libdeflate {level}",
        lambda image: bytes(deflate.zlib_compress(image.tobytes(), level)),
        lambda data: deflate.zlib_decompress(data, size),
        plain=True,
    )


def through_hdf5(images: Sequence[Images], repeats: int, name: str, plain: bool = True, **options: Any) -> FilterCost:
    """Measure writing and reading one chunk an image through HDF5's own filter, in an open file in memory."""
    # In memory, so that no disk is measured.
    with h5py.File(io.BytesIO(), "w") as file:
        shape = (len(images), *images[0].shape)
        data = file.create_dataset("images", shape, np.uint8, chunks=(1, *shape[1:]), **options)

        def write(_: int) -> None:
            for i, image in enumerate(images):
                data[i] = image
            file.flush()

        def read(_: int) -> None:
            opened = file["images"]
            for i in range(len(images)):
                opened[i]

        encoding, decoding = least_cpu_seconds(write, 1), least_cpu_seconds(read, repeats)
        each = 1e3 / len(images)
        return FilterCost(name, data.id.get_storage_size() / len(images), encoding * each, decoding * each, plain)


def png(image: Images) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "png")
    return buffer.getvalue()


def unpng(data: bytes) -> Images:
    return np.asarray(Image.open(io.BytesIO(data)))
