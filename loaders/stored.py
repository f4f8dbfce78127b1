"""The images and latents of one dataset folder by number, read from its shards or from its packed file.

HDF5 is asked once per shard where each image's chunk lies; from then on an image is one `pread` and one inflation, with
no lock and no HDF5 call between, so that reading is safe in threads and after a fork.
"""

import mmap
import os
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import deflate
import h5py
import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.folder import Folder, open_folder
from ident3d.loaders.pack import matching_file
from ident3d.loaders.shards import MEND, check_dataset, check_head, check_layout, inflate
from ident3d.loaders.source import world_of

OPEN_FILES = 64  # per folder and process
BLOCK = 16  # images taken from the memory map at once


class Table(NamedTuple):
    """Where the chunks of one shard lie, and its latents; `mask` as HDF5 keeps it for each chunk."""

    offset: list[int]
    size: list[int]
    mask: list[int]
    raw_latents: NDArray[np.float32]
    classes: NDArray[np.int8] | None


class Descriptor:
    """A file held open for reading until nobody refers to it any more."""

    def __init__(self, path: Path) -> None:
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class StoredImages:
    """A finished dataset folder; nothing is opened before it is needed, in whichever process needs it."""

    def __init__(self, path: Path | str, packed: bool | None = None) -> None:
        self.folder: Folder = open_folder(path)
        self.path = self.folder.path
        description = self.folder.description
        if not description.complete:
            have = self.folder.finished
            raise UserError(f"{self.path} is not finished: it holds {have} of {description.n} images; render the rest.")
        self.n, self.size = description.n, description.size
        if not self.n:
            raise UserError(f"{self.path} is empty: it holds no images.")
        self.packed = None if packed is False else matching_file(self.folder)
        if packed and not self.packed:
            raise UserError(f"{self.path} has no packed file that matches its shards; `ident3d pack` makes it.")
        self._first = np.array([entry.first for entry in self.folder.entries])
        self._start()

    def _start(self) -> None:
        self._tables: dict[int, Table] = {}
        self._open = lru_cache(OPEN_FILES)(Descriptor)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_tables", "_open", "_map")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @cached_property
    def world(self) -> World:
        return world_of(self.folder.description.settings)

    def read(self, index: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Images `index` into the rows of `out`, (len(index), H, W, 3)."""
        if self.packed:
            for start in range(0, len(index), BLOCK):
                rows = slice(start, start + BLOCK)
                np.take(self._map, index[rows], axis=0, out=out[rows], mode="clip")
                self._map_file.madvise(mmap.MADV_DONTNEED)  # the file's pages do not add up to this process's memory
            return
        for row, (shard, place) in enumerate(self._places(index)):
            out[row] = self._image(shard, place)

    def latents(self, index: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int8] | None]:
        """Raw latents of images `index` and, where there are, classes."""
        found = [(self._table(shard), place) for shard, place in self._places(index)]
        raw = np.stack([table.raw_latents[place] for table, place in found])
        classes = [table.classes[place] for table, place in found if table.classes is not None]
        return raw, np.array(classes, np.int8) if classes else None

    def all_latents(self) -> tuple[NDArray[np.float32], NDArray[np.int8] | None]:
        """Raw latents (n, d) of all images and, where there are, classes (n,)."""
        parts = [self._tables.get(k) or self._read_table(k, chunks=False) for k in range(len(self._first))]
        classes = [part.classes for part in parts if part.classes is not None]
        return np.concatenate([part.raw_latents for part in parts]), np.concatenate(classes) if classes else None

    @cached_property
    def _map(self) -> NDArray[np.uint8]:
        assert self.packed
        return np.memmap(self.packed, np.uint8, "r", shape=(self.n, self.size, self.size, 3))

    @property
    def _map_file(self) -> mmap.mmap:
        base: mmap.mmap = self._map._mmap  # type: ignore[attr-defined]
        return base

    def _places(self, index: NDArray[np.int64]) -> list[tuple[int, int]]:
        shard = np.searchsorted(self._first, index, side="right") - 1
        return list(zip(shard.tolist(), (index - self._first[shard]).tolist(), strict=True))

    def _image(self, shard: int, place: int) -> NDArray[np.uint8]:
        path = self.folder.shard_path(self.folder.entries[shard])
        table = self._table(shard)
        try:
            chunk = os.pread(self._open(path).number, table.size[place], table.offset[place])
            return inflate(chunk, table.mask[place], (self.size, self.size, 3))
        except (OSError, ValueError, deflate.DeflateError) as error:
            raise broken(path, error) from None

    def _table(self, shard: int) -> Table:
        table = self._tables.get(shard)
        if table is None:
            table = self._tables[shard] = self._read_table(shard, chunks=True)
        return table

    def _read_table(self, shard: int, chunks: bool) -> Table:
        entry = self.folder.entries[shard]
        path = self.folder.shard_path(entry)
        try:
            with h5py.File(path, "r") as file:
                if not chunks:  # the latents alone, quickly
                    check_head(file, path)
                    return Table([], [], [], *self._latents_in(file, path, entry.count))
                check_layout(file, path)
                images = file["images"]
                if images.shape != (entry.count, self.size, self.size, 3):
                    raise ValueError(f"images of shape {images.shape}")
                return Table(*chunk_places(images, entry.bytes), *self._latents_in(file, path, entry.count))
        except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
            raise broken(path, error) from None

    def _latents_in(
        self, file: h5py.File, path: Path, count: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int8] | None]:
        raw = check_dataset(file, path, "raw_latents")
        if raw.dtype != np.float32 or raw.shape != (count, self.world.n_raw):
            raise ValueError(f"raw latents of type {raw.dtype} and shape {raw.shape}")
        if "class" not in file:
            return raw[()], None
        classes = check_dataset(file, path, "class")
        if classes.dtype != np.int8 or classes.shape != (count,):
            raise ValueError(f"classes of type {classes.dtype} and shape {classes.shape}")
        return raw[()], classes[()]


def chunk_places(images: h5py.Dataset, file_bytes: int) -> tuple[list[int], list[int], list[int]]:
    """Offset, size and filter mask of each image's chunk; every chunk must be there and lie inside the file."""
    found: dict[int, tuple[int, int, int]] = {}

    def note(info: Any) -> None:
        found[info.chunk_offset[0]] = (info.byte_offset, info.size, info.filter_mask)

    images.id.chunk_iter(note)
    if sorted(found) != list(range(len(images))):
        raise ValueError("an image without a chunk")
    if any(offset + size > file_bytes for offset, size, _ in found.values()):
        raise ValueError("a chunk that lies outside the file")
    offset, size, mask = zip(*(found[i] for i in range(len(images))), strict=True)
    return list(offset), list(size), list(mask)


def broken(path: Path, error: Exception) -> UserError:
    """What went wrong with a shard, in one sentence that names it."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, FileNotFoundError):
        return UserError(f"The shard {path} is missing; {MEND}")
    return UserError(f"The shard {path} is damaged ({error}); {MEND}")
