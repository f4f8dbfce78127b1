"""``shards.jsonl``, the manifest: one line per finished shard, appended once the shard is safely on disk."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.format.files import sha256, sync_folder, write_atomically
from ident3d.loaders.format.inside import open_plain, plain_sizes
from ident3d.loaders.format.shard import MEND, Shard
from ident3d.loaders.format.shard_layout import CHANNELS

MANIFEST_FILE = "shards.jsonl"
# What a line that is no entry may raise.
BAD_LINE = (ValueError, TypeError, KeyError, RecursionError)
# Bytes; ours have some 250.
LONGEST_LINE = 2**16
SHARD_NAME = re.compile(r"[0-9]{5,12}\.h5")


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A finished shard: its file, the images first … first+count-1, hash and size, Σ x and Σ x² per channel."""

    name: str
    first: int
    count: int
    sha256: str
    bytes: int
    pixel_sum: tuple[int, ...]
    pixel_sum_squares: tuple[int, ...]

    @property
    def stop(self) -> int:
        return self.first + self.count

    def line(self) -> str:
        return json.dumps({name: getattr(self, name) for name in FIELDS}) + "\n"


FIELDS = tuple(field.name for field in fields(ShardEntry))
SHA256 = re.compile(r"[0-9a-f]{64}")


def shard_name(number: int, shards: int) -> str:
    """Return 00042.h5: the shard's number, padded to the number of shards and to at least five digits."""
    return f"{number:0{max(5, len(str(shards - 1)))}d}.h5"


def entry_of(name: str, shard: Shard, data: bytes) -> ShardEntry:
    """Return the manifest's entry for a shard with this content."""
    # Exact sums give the pixels' mean and std later, from the manifest alone, in whatever order the shards were made.
    sums, squares = shard.pixel_sums()
    return ShardEntry(
        name=name,
        first=int(shard.index[0]),
        count=len(shard.index),
        sha256=sha256(data),
        bytes=len(data),
        pixel_sum=tuple(sums),
        pixel_sum_squares=tuple(squares),
    )


def parse_line(line: str | bytes) -> ShardEntry:
    """Return the entry of one manifest line. Every field is checked, because nothing read from disk is trusted."""
    content: dict[str, Any] = json.loads(line)
    content["pixel_sum"] = sums = tuple(content["pixel_sum"])
    content["pixel_sum_squares"] = squares = tuple(content["pixel_sum_squares"])
    entry = ShardEntry(**content)
    # The type must be `int` itself: JSON's true is an int for Python, and a float would pass for a count.
    numbers = (entry.first, entry.count, entry.bytes, *sums, *squares)
    per_channel = len(sums) == len(squares) and len(sums) in CHANNELS
    if set(map(type, numbers)) != {int} or min(numbers) < 0 or not per_channel or not entry.count:
        raise ValueError("a count, size or sum is not a whole number")
    if not (isinstance(entry.name, str) and SHARD_NAME.fullmatch(entry.name)):
        raise ValueError(f"{entry.name!r} is not the name of a shard")
    if not (isinstance(entry.sha256, str) and SHA256.fullmatch(entry.sha256)):
        raise ValueError("the hash is not a sha256")
    return entry


def read_lines(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the manifest's lines with their numbers, one at a time: there may be millions."""
    try:
        number = open_plain(folder, MANIFEST_FILE)
    except FileNotFoundError:
        return
    with os.fdopen(number, "rb") as file:
        # A file without line ends would be read whole.
        yield from enumerate(iter(partial(file.readline, LONGEST_LINE), b""), 1)


def read_manifest(folder: Path) -> tuple[list[ShardEntry], str]:
    """Return the finished shards in order of their images, and the file's sha256, from one reading of the file.

    A last line that a crash cut short is no entry.
    """
    entries = []
    digest = hashlib.sha256()
    for number, line in read_lines(folder):
        digest.update(line)
        # A crash may cut the last line short. Its shard is on disk, and the next run enters it again.
        if not line.endswith(b"\n"):
            if len(line) == LONGEST_LINE:  # there may be lines after this one
                raise UserError(f"{folder / MANIFEST_FILE} is damaged: line {number} is too long; {MEND}")
            break
        try:
            entries.append(parse_line(line))
        except BAD_LINE as error:
            raise UserError(f"{folder / MANIFEST_FILE} is damaged in line {number} ({error}); {MEND}") from None
    return in_order(entries), digest.hexdigest()


def read_entries(folder: Path) -> list[ShardEntry]:
    """Return the finished shards in order of their images."""
    return read_manifest(folder)[0]


def readable_entries(folder: Path) -> list[ShardEntry]:
    """Return the entries of all lines that can be read, for a repair."""
    entries = []
    for _, line in read_lines(folder):
        with suppress(*BAD_LINE):
            entries.append(parse_line(line))
    return in_order(entries)


def in_order(entries: Iterable[ShardEntry]) -> list[ShardEntry]:
    """Return the entries in order of their images. Of two with the same first image, the later one counts."""
    # A shard that has grown is appended again, with the same first image and more of them.
    latest = {entry.first: entry for entry in entries}
    return [latest[first] for first in sorted(latest)]


def without_overlaps(entries: Sequence[ShardEntry]) -> list[ShardEntry]:
    """Return the entries in order of their images, without those that name an image again."""
    kept: list[ShardEntry] = []
    for entry in in_order(entries):
        if not kept or entry.first >= kept[-1].stop:
            kept.append(entry)
    return kept


def pixel_moments(
    folder: Path, entries: Sequence[ShardEntry], pixels: int, channels: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std per channel, in 0 … 1, of so many pixels; raise UserError for sums that no pixels have."""
    if {len(entry.pixel_sum) for entry in entries} - {channels}:
        raise UserError(f"{folder / MANIFEST_FILE} holds sums of other channels than the images have; {MEND}")
    # Sums are integers until the last division: mean and std are then the same in every order of the shards.
    sums = [sum(entry.pixel_sum[c] for entry in entries) for c in range(channels)]
    squares = [sum(entry.pixel_sum_squares[c] for entry in entries) for c in range(channels)]
    spreads = [pixels * q - s * s for s, q in zip(sums, squares, strict=True)]
    if min(spreads) < 0 or max(spreads) > (255 * pixels) ** 2 or max(sums) > 255 * pixels:
        raise UserError(f"{folder / MANIFEST_FILE} holds sums that no pixels have; {MEND}")
    return tuple(s / pixels / 255 for s in sums), tuple(sqrt(spread) / pixels / 255 for spread in spreads)


def append_entry(folder: Path, entry: ShardEntry) -> None:
    """Append a finished shard and sync. A last line that a crash cut short is dropped first."""
    # A new file's name is not on disk before its folder is synced.
    new = plain_sizes(folder, "", [MANIFEST_FILE])[MANIFEST_FILE] is None
    with os.fdopen(open_plain(folder, MANIFEST_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        file.write(entry.line().encode())
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync_folder(folder)


def write_entries(folder: Path, entries: Iterable[ShardEntry]) -> str:
    """Rewrite the manifest in order of the images; return its sha256."""
    data = manifest_bytes(entries)
    write_atomically(folder / MANIFEST_FILE, data)
    return sha256(data)


def manifest_bytes(entries: Iterable[ShardEntry]) -> bytes:
    """Return the file that lists these shards."""
    return "".join(entry.line() for entry in in_order(entries)).encode()
