"""The files of an export, each of so many images, and the images that go into one, as PNG files in memory."""

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

from numpy.typing import NDArray

from ident3d.loaders.cards.contact_sheet import picture_of
from ident3d.loaders.exports.columns import Column, table_of
from ident3d.loaders.folders.folder import Folder, checked_shard
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import Shard
from ident3d.machine import cores

# Bytes of a file, if no picture could be compressed. Beside its pixels, an image takes about so many.
PART_BYTES: Final = 2**28
BESIDE_PIXELS: Final = 2**12


@dataclass(frozen=True)
class Part:
    """One file of an export, which holds images first … stop-1."""

    name: str
    first: int
    stop: int


@dataclass(frozen=True)
class Block:
    """Consecutive images with their columns: number → the bytes of a PNG file."""

    pictures: dict[int, bytes]
    table: dict[str, NDArray[Any]]


def usual_part_size(shape: tuple[int, int, int]) -> int:
    """Return how many images go into one file: 256 MB before they are compressed."""
    return max(1, PART_BYTES // (prod(shape) + BESIDE_PIXELS))


def parts_of(n: int, part_size: int, name: str) -> list[Part]:
    """Return the files of n images; in `name`, {k} stands for the number of the file and {of} for how many there are.

    Example: 5 images, 2 a file, give images 0–1, 2–3 and 4.
    """
    of = -(-n // part_size)
    return [Part(name.format(k=k, of=of), k * part_size, min(n, (k + 1) * part_size)) for k in range(of)]


def reader_of_shards(folder: Folder) -> Callable[[ShardEntry], Shard]:
    """Return what reads and checks a shard, and keeps the last one: the files of an export may be many to a shard."""
    kept: dict[str, Shard] = {}

    def read(entry: ShardEntry) -> Shard:
        if entry.name not in kept:
            # Before the next one is read, so that one is in memory.
            kept.clear()
            kept[entry.name] = checked_shard(folder, entry)
        return kept[entry.name]

    return read


def blocks_of(
    folder: Folder,
    part: Part,
    columns: Sequence[Column],
    read: Callable[[ShardEntry], Shard],
    wanted: Callable[[int], bool] = lambda index: True,
) -> Iterator[Block]:
    """Yield the images of one file, shard by shard, with the pictures that are wanted. One shard is in memory.

    `read` is what `reader_of_shards` returns, one for all files.
    """
    # Both to inflate and to compress a picture lets other threads run.
    with ThreadPoolExecutor(cores()) as pool:
        for entry in folder.entries:
            if entry.stop <= part.first or entry.first >= part.stop:
                continue
            shard = read(entry)
            first, stop = max(part.first, entry.first), min(part.stop, entry.stop)
            due = [index for index in range(first, stop) if wanted(index)]
            # A picture is inflated by the thread that compresses it, so that no shard is in memory as pixels.
            made = pool.map(partial(png_of, shard, entry.first), due)
            pictures = dict(zip(due, made, strict=True))
            yield Block(pictures, table_of(columns, shard, slice(first - entry.first, stop - entry.first)))


def png_of(shard: Shard, first: int, index: int) -> bytes:
    """Return an image of a shard, whose first image has the number `first`, as a PNG file, grey or in colours."""
    buffer = io.BytesIO()
    picture_of(shard.images[index - first]).save(buffer, "png")
    return buffer.getvalue()


def picture_name(index: int) -> str:
    """Return the name of an image's picture; sorted by name, pictures are in order."""
    return f"{index:08d}.png"
