"""The images and latents of one dataset folder by number, read from its shards or from its packed file.

HDF5 finds once per shard where each image's chunk lies. From then on, reading an image is one `pread` and one inflation
without a lock or a call of HDF5, so that it is safe in threads and after a fork.
"""

import os
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import deflate
import h5py
import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.folders.folder import Folder, open_folder
from ident3d.loaders.folders.packed import checksums_of, matching_file
from ident3d.loaders.format import latents_table
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.inside import read_plain
from ident3d.loaders.format.latents_source import computed_column, world_of
from ident3d.loaders.format.latents_table import Latents, shard_column, shard_latents
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import (
    FURTHER_COLUMNS,
    MEND,
    as_user_error,
    chunk_places,
    inflate,
)
from ident3d.loaders.format.shard_layout import check_head, check_images

# For each folder and process. A process often may have 1,024 open files, and eight folders are a large join.
OPEN_FILES = 64
# Set to 0, packed images are read without the check of their checksums.
CHECKS_VARIABLE = "IDENT3D_CHECK_IMAGES"


class Descriptor:
    """A file that stays open for reading as long as something refers to it."""

    def __init__(self, path: Path) -> None:
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    # `close` is kept here: when Python ends, `os` may be gone before the last descriptor.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.number >= 0:
            close(self.number)


def open_shard(folder: Folder, number: int) -> Descriptor:
    return Descriptor(folder.shard_path(folder.entries[number]))


class StoredImages:
    """The images of a finished dataset folder. A shard is opened when, and in the process where, it is first needed."""

    def __init__(self, path: Path | str | Folder, packed: bool | None = None) -> None:
        self.folder: Folder = open_folder(path)
        self.path = self.folder.path
        description = self.folder.description
        if not description.complete:
            have = self.folder.finished
            what = "not closed yet" if have == description.n else "not finished"
            rest = "closes it" if have == description.n else "makes the rest"
            raise UserError(
                f"{self.folder.address} is {what}: it holds {have} of {description.n} images; the same "
                f"`ident3d render` as before {rest}."
            )
        self.n, self.size, self.shape = description.n, description.size, description.shape
        if not self.n:
            raise UserError(f"{self.folder.address} is empty: it holds no images.")
        self.packed = None if packed is False else matching_file(self.folder)
        if packed and not self.packed:
            raise UserError(
                f"{self.folder.address} has no packed file that matches its shards; `ident3d pack` makes it."
            )
        self._first = np.array([entry.first for entry in self.folder.entries])
        self._start()

    def _start(self) -> None:
        # What a process opens is its own: descriptors and the HDF5 library do not survive a pickle.
        self._chunks: dict[int, NDArray[np.int64]] = {}
        self._latents: dict[int, Latents] = {}
        self._open = lru_cache(OPEN_FILES)(partial(open_shard, self.folder))

    def __getstate__(self) -> dict[str, Any]:
        own = ("_chunks", "_latents", "_open", "_pixels", "_table", "_unread")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @cached_property
    def world(self) -> AnyWorld:
        return world_of(self.folder.description.settings)

    @property
    def has_classes(self) -> bool:
        """Whether images have classes, as the table of all latents or the first shard says."""
        return (self._table or self._latents_of(0))[1] is not None

    def read(self, index: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Read images `index` into the rows of `out`, (len(index), H, W, C)."""
        if self.packed:
            self._read_packed(index, out)
            if self._unread is not None and self._unread[1][index].any():
                self._check(index, out)
            return
        for row, (shard, place) in enumerate(self._places(index)):
            out[row] = self._image(shard, place)

    def latents(self, index: NDArray[np.int64]) -> Latents:
        """Return the raw latents of images `index` and, if they have any, their classes."""
        if self._table:
            table, kinds = self._table
            return table[index], None if kinds is None else kinds[index]
        found = [(*self._latents_of(shard), place) for shard, place in self._places(index)]
        raw = np.stack([rows[place] for rows, _, place in found])
        classes = [kinds[place] for _, kinds, place in found if kinds is not None]
        return raw, np.array(classes) if classes else None

    def all_latents(self) -> Latents:
        """Return the raw latents (n, d) of all images and, if they have any, their classes (n,)."""
        if self._table:
            return self._table
        # Without the table every shard is opened. Its rows are in the result, so that they are not kept twice.
        parts = [self._latents_of(shard) for shard in range(len(self._first))]
        self._latents.clear()
        classes = [kinds for _, kinds in parts if kinds is not None]
        return np.concatenate([raw for raw, _ in parts]), np.concatenate(classes) if classes else None

    @cached_property
    def _table(self) -> Latents | None:
        # Its hash is recorded, so that a latent that changed on disk is never returned.
        return latents_table.read_table(self.path, self.folder.description.all_latents, self.n, self.world.n_raw)

    @cached_property
    def _unread(self) -> tuple[NDArray[np.uint32], NDArray[np.bool_]] | None:
        """The checksums of the packed images, and which of them this process has not checked yet. None: no checks."""
        if os.environ.get(CHECKS_VARIABLE) == "0":
            return None
        # A packed file of version 0.1 has no checksums. Its sha256 is of the whole file, which only `verify` reads.
        checksums = checksums_of(self.folder)
        return None if checksums is None else (checksums, np.ones(self.n, np.bool_))

    def _check(self, index: NDArray[np.int64], images: NDArray[np.uint8]) -> None:
        """Raise UserError if a packed image is not as it was packed. Each is checked when it is first read."""
        assert self._unread is not None
        checksums, unread = self._unread
        for row in np.flatnonzero(unread[index]).tolist():
            number = int(index[row])
            if deflate.crc32(images[row]) != checksums[number]:
                raise UserError(
                    f"Image {number} of the packed file {self.packed} is damaged: its checksum is another. "
                    f"`ident3d pack` makes the file anew."
                )
            unread[number] = False

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the further columns, such as sequence and frame; they are those of every shard."""
        path = self.folder.shard_path(self.folder.entries[0])
        with as_user_error(path), h5py.File(path, "r", locking=False) as file:
            return tuple(name for name in FURTHER_COLUMNS if name in check_head(file, path))

    def column(self, name: str) -> NDArray[np.int64]:
        """Return a further column, such as sequence or frame, of all images (n,)."""
        known = computed_column(self.folder.description.settings, name, self.n)
        if known is not None:
            return known
        return np.concatenate(
            [
                shard_column(self.folder.shard_path(entry), entry.count, name, self._checked_bytes(entry))
                for entry in self.folder.entries
            ]
        )

    def _read_packed(self, index: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        # One `pread` an image. Pages of a memory map would all count as this process's memory, unless they are given
        # back after each batch, and then small images cost five times as much.
        try:
            file, size = self._pixels.number, prod(self.shape)
            for image, number in zip(out, index.tolist(), strict=True):
                if os.preadv(file, [image], number * size) != size:
                    raise OSError("it has become shorter")
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"The packed file {self.packed} is gone or damaged since it was found ({why}).") from None

    @cached_property
    def _pixels(self) -> Descriptor:
        assert self.packed
        return Descriptor(self.packed)

    def _places(self, index: NDArray[np.int64]) -> list[tuple[int, int]]:
        shard = np.searchsorted(self._first, index, side="right") - 1
        return list(zip(shard.tolist(), (index - self._first[shard]).tolist(), strict=True))

    def _image(self, shard: int, place: int) -> NDArray[np.uint8]:
        offset, size, mask, together, row = self._chunks_of(shard)[place].tolist()
        with as_user_error(self.folder.shard_name(self.folder.entries[shard])):
            # The name `file` keeps the descriptor open. Without it, another thread's read could push it out of the
            # cache, its number would be closed, and the same number could soon mean another file.
            file = self._open(shard)
            return inflate(os.pread(file.number, size, offset), mask, together, row, self.shape)

    def _chunks_of(self, shard: int) -> NDArray[np.int64]:
        if shard not in self._chunks:
            entry = self.folder.entries[shard]
            path = self.folder.shard_path(entry)
            # A shard is never changed in its place, so that no lock is needed, and another process's does not matter.
            with as_user_error(path), h5py.File(path, "r", locking=False) as file:
                check_head(file, path)
                images = check_images(file, path)
                if images.shape != (entry.count, *self.shape):
                    raise ValueError(f"images of shape {images.shape}")
                self._chunks[shard] = chunk_places(images, entry.bytes)
        return self._chunks[shard]

    def _latents_of(self, shard: int) -> Latents:
        if shard not in self._latents:
            entry = self.folder.entries[shard]
            path, data = self.folder.shard_path(entry), self._checked_bytes(entry)
            self._latents[shard] = shard_latents(path, entry.count, self.world.n_raw, data)
        return self._latents[shard]

    def _checked_bytes(self, entry: ShardEntry) -> bytes:
        """Return a shard's file. HDF5 keeps no checksum of latents and columns, as gzip does of images."""
        path = self.folder.shard_path(entry)
        with as_user_error(path):
            data = read_plain(path.parent, path.name, entry.bytes)
        if sha256(data) != entry.sha256:
            raise UserError(f"The shard {self.folder.shard_name(entry)} does not match its hash; {MEND}")
        return data
