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
from ident3d.loaders.format.files import parse_json

SHARD_FORMAT = "ident3d-shard"
SHARD_FORMAT_VERSION = 1
GZIP_LEVEL = 9
# Deflate makes at most 1032 bytes of one. What claims more than this multiple of its file is a lie.
MOST_INFLATED = 1100
# Bytes of an attribute, and columns of a table: what `encode_shard` writes is far from either.
LARGEST_ATTRIBUTE = 2**20
MOST_COLUMNS = 64
KINDS: dict[str, tuple[type, int]] = {
    "images": (np.uint8, 4),
    "raw_latents": (np.float32, 2),
    "scene_latents": (np.float32, 2),
    "index": (np.int64, 1),
    "class": (np.int8, 1),
}
MEND = "`ident3d verify --repair`, then the same `ident3d render` or `ident3d import` makes it again."


class StoredPictures:
    """The images (n, H, W, 3) of a shard's bytes. Each is inflated when it is asked for, and none is kept.

    Black images of 8192 pixels are a thousand times as large as their file, so that a shard of them fills a machine.
    """

    def __init__(self, name: Path | str, data: bytes, places: NDArray[np.int64], shape: tuple[int, ...]) -> None:
        self.name, self.data, self.places, self.shape = name, data, places, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, number: int) -> NDArray[np.uint8]:
        offset, size, mask = self.places[number].tolist()
        with as_user_error(self.name):
            return inflate(self.data[offset : offset + size], mask, self.shape[1:])

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return map(self.__getitem__, range(len(self)))

    def __array__(self, dtype: Any = None) -> NDArray[Any]:
        return np.stack(list(self)).astype(dtype or np.uint8, copy=False)


@dataclass(frozen=True)
class Shard:
    """Consecutive images (n, H, W, 3) uint8 with raw and scene latents, indices and, if they have any, classes."""

    images: NDArray[np.uint8] | StoredPictures
    raw_latents: NDArray[np.float32]
    scene_latents: NDArray[np.float32]
    index: NDArray[np.int64]
    classes: NDArray[np.int8] | None = None

    def pixel_sums(self) -> tuple[list[int], list[int]]:
        """Return Σ x and Σ x² per channel over all pixels, as exact integers."""
        # Counted by level, not summed: sums of floats would depend on their order, and so on the shards' size.
        counts = np.zeros((3, 256), np.int64)
        for image in self.images:
            counts += [np.bincount(image[..., c].ravel(), minlength=256) for c in range(3)]
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


def read_shard(path: Path, data: bytes | None = None) -> Shard:
    """Read all of a shard file but its pixels, or of its bytes `data` if they were read already."""
    with as_user_error(path):
        data = path.read_bytes() if data is None else data
        with h5py.File(io.BytesIO(data), "r") as file:
            check_layout(file, path)
            images = StoredPictures(path, data, chunk_places(file["images"], len(data)), file["images"].shape)
            latents = {name: file[name][()] for name in file if name != "images"}
            classes = latents.pop("class", None)
            return Shard(images, **latents, classes=classes)


def read_settings(path: Path, data: bytes | None = None) -> dict[str, Any]:
    """Read the settings that a shard file records, or those of its bytes `data` if they were read already."""
    with as_user_error(path), h5py.File(path if data is None else io.BytesIO(data), "r") as file:
        check_head(file, path)
        try:
            return parse_json(bytes(attribute(file, b"settings")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"its settings cannot be read: {error}") from None


def chunk_places(images: h5py.Dataset, file_bytes: int) -> NDArray[np.int64]:
    """Return offset, size and filter mask of each image's chunk; every chunk must be there and lie inside the file."""
    found: dict[int, tuple[int, int, int]] = {}

    def note(info: Any) -> None:
        found[info.chunk_offset[0]] = (info.byte_offset, info.size, info.filter_mask)

    # One call visits the whole index of chunks; asking for each by its number would search the index anew.
    images.id.chunk_iter(note)
    if len(found) != len(images) or sorted(found) != list(range(len(images))):
        raise ValueError("an image without a chunk")
    if any(offset + size > file_bytes for offset, size, _ in found.values()):
        raise ValueError("a chunk that lies outside the file")
    return np.array([found[i] for i in range(len(images))], np.int64).reshape(-1, 3)


def inflate(chunk: bytes, mask: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the image of one stored chunk; bit 0 of `mask` means that HDF5 stored it without the gzip filter."""
    size = int(np.prod(shape))
    if size > MOST_INFLATED * len(chunk):
        raise ValueError(f"an image of {size} bytes from {len(chunk)}")
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
        data = images if name == "images" else check_dataset(file, path, name)
        if len(data) != len(images):
            raise UserError(f"{path} has {len(images)} images but {len(data)} rows of {name}.")


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
    # A text of varying length would be read from wherever the file says that it lies. Ours have a fixed length.
    if found.shape != () or found.dtype.kind not in "Siu" or found.dtype.itemsize > LARGEST_ATTRIBUTE:
        raise ValueError(f"its {name.decode()} are not a single number or a short text")
    value = np.empty((), found.dtype)
    found.read(value)
    return value[()]


def check_images(file: h5py.File, path: Path) -> h5py.Dataset:
    """Return the images; refuse anything but one gzipped chunk of H×W×3 bytes for each."""
    images = check_dataset(file, path, "images")
    shape = images.shape
    if shape[3] != 3 or images.chunks != (1, *shape[1:]):
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
    if name not in KINDS:
        raise UserError(f"{path} holds {name}, which is no part of a shard.")
    kind, dimensions = KINDS[name]
    if data.dtype != kind or data.ndim != dimensions:
        raise UserError(f"{path} stores {name} as {data.dtype} of {data.ndim} dimensions.")
    # A small file may claim terabytes, which would be allocated before the first byte is read.
    if data.nbytes > MOST_INFLATED * file.id.get_filesize():
        raise UserError(f"{path} claims {data.nbytes:,} bytes of {name}, more than a file of its size can hold.")
    # HDF5 inflates a whole chunk to read one row, and a chunk may be larger than the table. Ours have no chunks.
    flat = layout.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT) and data.size <= MOST_COLUMNS * len(data)
    if name != "images" and not flat:
        raise UserError(f"{path} does not store {name} as one plain table of at most {MOST_COLUMNS} columns.")
    return data
