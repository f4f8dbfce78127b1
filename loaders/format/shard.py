"""One shard: an HDF5 file of consecutive images with their latents, which plain h5py can read by itself.

Each image is one gzip chunk, or several small ones are. libdeflate compresses and decompresses the chunks instead of
HDF5's own filter: the format is the same and takes a third of the time (`ident3d bench shards`).
"""

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import deflate
import h5py
import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.format.files import parse_json
from ident3d.loaders.format.shard_layout import (
    MOST_INFLATED,
    SHARD_FORMAT,
    SHARD_FORMAT_VERSION,
    attribute,
    check_head,
    check_layout,
)

GZIP_LEVEL = 9
# What a shard may say of each image besides its class.
FURTHER_COLUMNS = ("sequence", "frame", "instance", "view", "environment", "targets")
# Bytes. HDF5 keeps an attribute in a header of 64 kB.
LONGEST_SETTINGS = 64_000
# What to do about damage that a size or a hash proves, and about a reading that failed, which proves nothing.
MEND = "`ident3d verify --repair`, then the same `ident3d render` or `ident3d import` makes it again."
JUDGE = "`ident3d verify` says whether it is damaged."


class Unread(UserError):
    """The system did not let a shard be read: a lock, memory, open files. It says nothing of what the shard holds."""


class Unparsed(UserError):
    """A shard was read and could not be taken apart. That is no proof of damage: HDF5 too may be short of memory."""


class StoredPictures:
    """The images (n, H, W, C) of a shard's bytes. Each is inflated when it is asked for, and none is kept.

    Black images of 8192 pixels are a thousand times as large as their file, so that a shard of them fills a machine.
    """

    def __init__(self, name: Path | str, data: bytes, places: NDArray[np.int64], shape: tuple[int, ...]) -> None:
        self.name, self.data, self.places, self.shape = name, data, places, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, number: int) -> NDArray[np.uint8]:
        offset, size, mask, together, row = self.places[number].tolist()
        with as_user_error(self.name):
            return inflate(self.data[offset : offset + size], mask, together, row, self.shape[1:])

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return map(self.__getitem__, range(len(self)))

    def __array__(self, dtype: Any = None) -> NDArray[Any]:
        return np.stack(list(self)).astype(dtype or np.uint8, copy=False)


@dataclass(frozen=True)
class Shard:
    """Consecutive images (n, H, W, C) uint8 with raw and scene latents, indices and, if they have any, classes.

    `columns` holds further numbers of each image: sequence and frame, instance and view, environment, and what was
    intervened on.
    """

    images: NDArray[np.uint8] | StoredPictures
    raw_latents: NDArray[np.float32]
    scene_latents: NDArray[np.float32]
    index: NDArray[np.int64]
    classes: NDArray[np.signedinteger[Any]] | None = None
    columns: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def pixel_sums(self) -> tuple[list[int], list[int]]:
        """Return Σ x and Σ x² per channel over all pixels, as exact integers."""
        # Counted by level, not summed: sums of floats would depend on their order, and so on the shards' size.
        channels = self.images.shape[-1]
        counts = np.zeros((channels, 256), np.int64)
        for image in self.images:
            counts += [np.bincount(image[..., c].ravel(), minlength=256) for c in range(channels)]
        levels = np.arange(256)
        return [int(v) for v in counts @ levels], [int(v) for v in counts @ levels**2]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything but the images, by its name in the file."""
        named: dict[str, NDArray[Any]] = {"raw_latents": self.raw_latents, "scene_latents": self.scene_latents}
        named["index"] = self.index
        return (named if self.classes is None else named | {"class": self.classes}) | self.columns


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return the settings as every shard holds them; UserError if they are too long for it."""
    text = json.dumps(settings, sort_keys=True)
    if len(text) > LONGEST_SETTINGS:
        raise UserError(
            f"The settings of this dataset take {len(text):,} bytes, and a shard has room for {LONGEST_SETTINGS:,}: "
            "declare factors with fewer or shorter values, a shorter graph, or a shorter file of your scene."
        )
    return text


def encode_shard(shard: Shard, settings: dict[str, Any]) -> bytes:
    """Return the shard as the bytes of an HDF5 file. Equal shards and settings give equal bytes."""
    # The file is made in memory, so that its hash is known before the first byte is on disk.
    buffer = io.BytesIO()
    count, *shape = shard.images.shape
    together = min(count, settings.get("images_per_chunk", 1))
    with h5py.File(buffer, "w") as file:
        file.attrs["format"] = np.bytes_(SHARD_FORMAT)
        file.attrs["format_version"] = SHARD_FORMAT_VERSION
        # With the settings a shard says by itself how it was made. A lost description can be rebuilt from them.
        file.attrs["settings"] = np.bytes_(settings_text(settings))
        images = file.create_dataset(
            "images",
            shard.images.shape,
            np.uint8,
            chunks=(together, *shape),
            compression="gzip",
            compression_opts=GZIP_LEVEL,
        )
        for i in range(0, count, together):
            pixels = b"".join(
                np.ascontiguousarray(shard.images[j]).tobytes() for j in range(i, min(i + together, count))
            )
            # The last chunk is as large as the others, as HDF5 wants it: it ends with black images that do not exist.
            chunk = deflate.zlib_compress(pixels.ljust(together * prod(shape), b"\0"), GZIP_LEVEL)
            images.id.write_direct_chunk((i, 0, 0, 0), bytes(chunk))
        for name, values in shard.arrays().items():
            file.create_dataset(name, data=values)
    return buffer.getvalue()


@contextmanager
def as_user_error(shard: Path | str) -> Iterator[None]:
    """Turn what HDF5 and the decoder raise into Unread, Unparsed or, if the shard is missing, another UserError."""
    try:
        yield
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"The shard {shard} is missing; {MEND}") from None
    except MemoryError:
        raise Unread(f"The shard {shard} could not be read: there is not enough memory.") from None
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, deflate.DeflateError) as error:
        # The system names what it refused, for example too many open files. HDF5 has no such number for content.
        if isinstance(error, OSError) and error.errno:
            raise Unread(f"The shard {shard} could not be read ({os.strerror(error.errno)}).") from None
        raise Unparsed(f"The shard {shard} seems damaged ({error}); {JUDGE}") from None


def read_shard(path: Path, data: bytes | None = None) -> Shard:
    """Read all of a shard file but its pixels, or of its bytes `data` if they were read already."""
    with as_user_error(path):
        data = path.read_bytes() if data is None else data
        with h5py.File(io.BytesIO(data), "r") as file:
            check_layout(file, path)
            images = StoredPictures(path, data, chunk_places(file["images"], len(data)), file["images"].shape)
            latents = {name: file[name][()] for name in file if name != "images"}
            classes = latents.pop("class", None)
            columns = {name: latents.pop(name) for name in FURTHER_COLUMNS if name in latents}
            return Shard(images, **latents, classes=classes, columns=columns)


def read_settings(path: Path, data: bytes | None = None) -> dict[str, Any]:
    """Read the settings that a shard file records, or those of its bytes `data` if they were read already."""
    with as_user_error(path), h5py.File(path if data is None else io.BytesIO(data), "r", locking=False) as file:
        check_head(file, path)
        try:
            return parse_json(bytes(attribute(file, b"settings")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"its settings cannot be read: {error}") from None


def chunk_places(images: h5py.Dataset, file_bytes: int) -> NDArray[np.int64]:
    """Return for each image offset, size and filter mask of its chunk, how many images that holds, and which it is.

    Every chunk must be there and lie inside the file.
    """
    found: dict[int, tuple[int, int, int]] = {}

    def note(info: Any) -> None:
        found[info.chunk_offset[0]] = (info.byte_offset, info.size, info.filter_mask)

    # One call visits the whole index of chunks; asking for each by its number would search the index anew.
    images.id.chunk_iter(note)
    together = images.chunks[0]
    if sorted(found) != list(range(0, len(images), together)):
        raise ValueError("an image without a chunk")
    if any(offset + size > file_bytes for offset, size, _ in found.values()):
        raise ValueError("a chunk that lies outside the file")
    rows = [(*found[i - i % together], together, i % together) for i in range(len(images))]
    return np.array(rows, np.int64).reshape(-1, 5)


def inflate(chunk: bytes, mask: int, together: int, row: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return image `row` of the `together` images of one stored chunk.

    Bit 0 of `mask` means that HDF5 stored it without the gzip filter.
    """
    size = together * prod(shape)
    if size > MOST_INFLATED * len(chunk):
        raise ValueError(f"an image of {size} bytes from {len(chunk)}")
    data = chunk if mask & 1 else deflate.zlib_decompress(chunk, size)
    if len(data) != size:
        raise ValueError(f"an image of {len(data)} bytes instead of {size}")
    images: NDArray[np.uint8] = np.frombuffer(data, np.uint8).reshape(together, *shape)[row]
    return images
