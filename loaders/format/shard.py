"""One shard: an HDF5 file of consecutive images with their latents, which plain h5py can read by itself.

Each image is one gzip chunk. libdeflate compresses and decompresses the chunks instead of HDF5's own filter: the format
is the same and takes a third of the time (`ident3d bench shards`).
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deflate
import h5py
import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError

SHARD_FORMAT = "ident3d-shard"
SHARD_FORMAT_VERSION = 1
GZIP_LEVEL = 9
# Deflate makes at most 1032 bytes of one. What claims more than this multiple of its file is a lie.
MOST_INFLATED = 1100
KINDS: dict[str, tuple[type, int]] = {
    "raw_latents": (np.float32, 2),
    "scene_latents": (np.float32, 2),
    "index": (np.int64, 1),
    "class": (np.int8, 1),
}
MEND = "`ident3d verify --repair`, then the same `ident3d render` or `ident3d import` makes it again."


@dataclass(frozen=True)
class Shard:
    """Consecutive images (n, H, W, 3) uint8 with raw and scene latents, indices and, if they have any, classes."""

    images: NDArray[np.uint8]
    raw_latents: NDArray[np.float32]
    scene_latents: NDArray[np.float32]
    index: NDArray[np.int64]
    classes: NDArray[np.int8] | None = None

    def pixel_sums(self) -> tuple[list[int], list[int]]:
        """Return Σ x and Σ x² per channel over all pixels, as exact integers."""
        # Counted by level, not summed: sums of floats would depend on their order, and so on the shards' size.
        counts = np.stack([np.bincount(self.images[..., c].ravel(), minlength=256) for c in range(3)])
        levels = np.arange(256)
        return [int(v) for v in counts @ levels], [int(v) for v in counts @ levels**2]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything but the images, by its name in the file."""
        named: dict[str, NDArray[Any]] = {"raw_latents": self.raw_latents, "scene_latents": self.scene_latents}
        named["index"] = self.index
        return named if self.classes is None else named | {"class": self.classes}


def encode_shard(shard: Shard, settings: dict[str, Any]) -> bytes:
    """Return the shard as the bytes of an HDF5 file. Equal shards and settings give equal bytes."""
    # The file is made in memory, so that its hash is known before the first byte is on disk.
    buffer = io.BytesIO()
    count, height, width, _ = shard.images.shape
    with h5py.File(buffer, "w") as file:
        file.attrs["format"] = np.bytes_(SHARD_FORMAT)
        file.attrs["format_version"] = SHARD_FORMAT_VERSION
        # With the settings a shard says by itself how it was made. A lost description can be rebuilt from them.
        file.attrs["settings"] = np.bytes_(json.dumps(settings, sort_keys=True))
        images = file.create_dataset(
            "images",
            shard.images.shape,
            np.uint8,
            chunks=(1, height, width, 3),
            compression="gzip",
            compression_opts=GZIP_LEVEL,
        )
        for i in range(count):
            chunk = deflate.zlib_compress(np.ascontiguousarray(shard.images[i]).tobytes(), GZIP_LEVEL)
            images.id.write_direct_chunk((i, 0, 0, 0), bytes(chunk))
        for name, values in shard.arrays().items():
            file.create_dataset(name, data=values)
    return buffer.getvalue()


@contextmanager
def as_user_error(shard: Path | str) -> Iterator[None]:
    """Turn what HDF5 and the decoder raise for a missing or damaged shard into a UserError that names the shard."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"The shard {shard} is missing; {MEND}") from None
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, MemoryError, deflate.DeflateError) as error:
        raise UserError(f"The shard {shard} is damaged ({error}); {MEND}") from None


def read_shard(path: Path) -> Shard:
    """Read all of a shard file, with every image decompressed."""
    with as_user_error(path), h5py.File(path, "r") as file:
        check_layout(file, path)
        dataset = file["images"]
        images = np.empty(dataset.shape, np.uint8)
        for i in range(len(images)):
            mask, chunk = dataset.id.read_direct_chunk((i, 0, 0, 0))
            images[i] = inflate(chunk, mask, images[i].shape)
        latents = {name: file[name][()] for name in file if name != "images"}
        classes = latents.pop("class", None)
        return Shard(images, **latents, classes=classes)


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings that a shard file records."""
    with as_user_error(path), h5py.File(path, "r") as file:
        check_layout(file, path)
        settings: dict[str, Any] = json.loads(bytes(file.attrs["settings"]).decode())
        return settings


def inflate(chunk: bytes, mask: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the image of one stored chunk; bit 0 of `mask` means that HDF5 stored it without the gzip filter."""
    size = int(np.prod(shape))
    data = chunk if mask & 1 else deflate.zlib_decompress(chunk, size)
    if len(data) != size:
        raise ValueError(f"an image of {len(data)} bytes instead of {size}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def check_layout(file: h5py.File, path: Path) -> None:
    """Refuse what is not a plain shard: other formats, links, external or virtual storage, wrong shapes and types."""
    # A shard may come from anyone. HDF5 would follow its links and external storage to any file of the user's.
    names = check_head(file, path)
    images = check_images(file, path)
    for name in names:
        data = check_dataset(file, path, name)
        if len(data) != len(images):
            raise UserError(f"{path} has {len(images)} images but {len(data)} rows of {name}.")
        kind, dimensions = KINDS.get(name, (data.dtype, data.ndim))
        if data.dtype != kind or data.ndim != dimensions:
            raise UserError(f"{path} stores {name} as {data.dtype} of {data.ndim} dimensions.")


def check_head(file: h5py.File, path: Path) -> list[str]:
    """Return the names of the parts. Refuse other formats, missing parts, and links before anything opens them."""
    if not h5py.h5a.exists(file.id, b"format") or attribute(file, b"format") != SHARD_FORMAT.encode():
        raise UserError(f"{path} is not an ident3d shard.")
    version = attribute(file, b"format_version")
    if version != SHARD_FORMAT_VERSION:
        raise UserError(f"{path} has shard format {version}; this ident3d reads format {SHARD_FORMAT_VERSION}.")
    names = list(file)
    if not {"images", "raw_latents", "scene_latents", "index"} <= set(names):
        raise UserError(f"{path} lacks one of images, raw_latents, scene_latents and index.")
    for name in names:
        if file.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            raise UserError(f"{path} holds a link or a group where only datasets belong: {name}.")
    return names


def attribute(file: h5py.File, name: bytes) -> Any:
    """Read a single value of the file itself, in half the time of ``file.attrs``."""
    found = h5py.h5a.open(file.id, name)
    value = np.empty((), found.dtype)
    if found.shape != ():
        raise ValueError(f"{name!r} is not a single value")
    found.read(value)
    return value[()]


def check_images(file: h5py.File, path: Path) -> h5py.Dataset:
    """Return the images; refuse anything but one gzipped chunk of H×W×3 bytes for each."""
    images = check_dataset(file, path, "images")
    shape = images.shape
    if images.dtype != np.uint8 or len(shape) != 4 or shape[3] != 3 or images.chunks != (1, *shape[1:]):
        raise UserError(f"{path} does not store its images as one uint8 chunk of H×W×3 each.")
    # Chunks are inflated here and not by HDF5, so that only one filter is known, and no plug-in is ever loaded.
    layout = images.id.get_create_plist()
    if [layout.get_filter(k)[0] for k in range(layout.get_nfilters())] != [h5py.h5z.FILTER_DEFLATE]:
        raise UserError(f"{path} stores its images through another filter than gzip.")
    return images


def check_dataset(file: h5py.File, path: Path, name: str) -> h5py.Dataset:
    """Return the dataset of this name; refuse a group, or storage outside the file."""
    data = file[name]
    if not isinstance(data, h5py.Dataset):
        raise UserError(f"{path} holds a link or a group where only datasets belong: {name}.")
    layout = data.id.get_create_plist()
    if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count():
        raise UserError(f"{path} takes {name} from another file, which is not allowed.")
    # A small file may claim terabytes, which would be allocated before the first byte is read.
    if data.nbytes > MOST_INFLATED * file.id.get_filesize():
        raise UserError(f"{path} claims {data.nbytes:,} bytes of {name}, more than a file of its size can hold.")
    return data
