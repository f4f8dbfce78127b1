"""``judge``: whether one shard is as recorded, is proven wrong, or cannot be judged here and now.

The bytes that are hashed are the bytes that are taken apart. So neither a lock nor another process's write between two
readings can make a sound shard look broken.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.errors import UserError
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.format.description import SHARDS, Description
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.inside import NotPlain, names_in, read_plain
from ident3d.loaders.format.latents_source import recorded_latents, world_of
from ident3d.loaders.format.latents_table import Latents
from ident3d.loaders.format.manifest import SHARD_NAME, ShardEntry, entry_of
from ident3d.loaders.format.shard import Shard, Unparsed, Unread, encode_shard, read_settings, read_shard
from ident3d.loaders.stores.store import Store

MISMATCH = "the file does not match its sha256"
# Bytes of a shard beyond those of its pixels: HDF5's structures and the latents. Ours have a few thousand.
BESIDE_PIXELS = 2**22


@dataclass(frozen=True)
class Verdict:
    """What is known of a shard. Nothing is, if `unknown` says why; else it is sound, unless `wrong` says what is wrong.

    `entry` is what the manifest should say of it; it differs from what it says if only the line is wrong. `proven` says
    that a hash that is vouched for is not the file's. A `doubtful` shard is sound if the manifest that lists it has the
    hash that ``dataset.json`` records. `unread` says that the system did not give us the file.
    """

    entry: ShardEntry | None
    wrong: tuple[str, ...] = ()
    unknown: str | None = None
    proven: bool = False
    latents: Latents | None = None
    doubtful: bool = False
    unread: bool = False


def shard_names(where: Path | Store) -> list[str]:
    """Return the names of all shards that are there, whatever the manifest says."""
    names = where.sizes(SHARDS) if isinstance(where, Store) else names_in(where, SHARDS)
    return sorted(name for name in names if SHARD_NAME.fullmatch(name))


def shard_bytes(where: Path | Store, name: str, most: int) -> bytes:
    """Return a shard's file, or of a larger one than expected the first bytes; FileNotFoundError if there is none."""
    if isinstance(where, Path):
        return read_plain(where, f"{SHARDS}/{name}", most)
    data = where.get(f"{SHARDS}/{name}")
    if data is None:
        raise FileNotFoundError(name)
    return data


def largest_shard(settings: Mapping[str, Any], count: int) -> int:
    """Return more bytes than a shard of so many images has, even if nothing in them can be compressed."""
    pixels = count * int(settings["size"]) ** 2 * 3
    return pixels + pixels // 100 + BESIDE_PIXELS


def reason(error: BaseException) -> str:
    """Return why something could not be read: the system's words, or that memory is short."""
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, OSError) and error.errno:
        return f"{os.strerror(error.errno)}"
    return str(error)


def judge(
    where: Path | Store,
    folder: Path,
    description: Description,
    name: str,
    line: ShardEntry | None,
    *,
    vouched: bool,
    compare_latents: bool = True,
) -> Verdict:
    """Return what is known of the shard `name`, of which the manifest says `line`, if anything.

    `vouched` says that the manifest itself has the hash that ``dataset.json`` records, so that the line is right.
    `folder` holds the small files; of a dataset in a store they are copies.
    """
    file, settings = folder / SHARDS / name, description.settings
    # Where a shard begins follows from its number. A line that nothing vouches for may be wrong in that as well.
    first = line.first if line and vouched else int(name.removesuffix(".h5")) * description.shard_size
    most = line.count if line and vouched else min(description.shard_size, description.n - first)
    try:
        data = shard_bytes(where, name, line.bytes if line and vouched else largest_shard(settings, max(most, 0)))
        matches = line is not None and sha256(data) == line.sha256
    except FileNotFoundError:
        # Not proven: a network file system may show another host's file only after a while.
        return Verdict(line, ("the file is missing",))
    except NotPlain as error:
        # A link to a file is the user's, who may read through it; nothing that it names is moved or judged.
        return Verdict(line, unknown=str(error)) if file.is_file() else Verdict(line, (str(error),))
    except (OSError, MemoryError) as error:
        return Verdict(line, unknown=reason(error), unread=True)
    if vouched and not matches:
        return Verdict(line, (MISMATCH,), proven=True)
    try:
        shard, recorded = read_shard(file, data), read_settings(file, data)
        if recorded != settings:
            return Verdict(line, ("the shard was made with other settings than the dataset",))
        latents = shard.raw_latents, shard.classes
        if line and matches and line.bytes == len(data):
            found = content_problems(folder, settings, line, shard, compare_latents=compare_latents)
            if vouched or not found:
                return Verdict(line, tuple(found), latents=latents)
        if not (len(shard.index) and first == shard.index[0] and shard.index[-1] < first + most):
            return Verdict(line, (f"the indices do not begin at {first}, or go beyond {first + most - 1}",))
        entry = entry_of(name, shard, data)
        # If the line has another hash than the file, either of them may be what was damaged.
        doubtful = bool(line) and not matches and not (compare_latents and is_canonical(shard, settings, data))
        if doubtful and not description.complete:
            return Verdict(line, (MISMATCH,))
        found = content_problems(folder, settings, entry, shard, compare_latents=compare_latents)
        return Verdict(entry, tuple(found), latents=latents, doubtful=doubtful)
    except (Unread, Unparsed, OSError, MemoryError) as error:
        # A hash that matches outweighs whatever kept the file from being taken apart.
        mismatch = line is not None and not matches and isinstance(error, Unparsed)
        if mismatch:
            return Verdict(line, (MISMATCH,))
        return Verdict(line, unknown=reason(error), unread=not isinstance(error, Unparsed))
    except UserError as error:
        # It is, to the byte, what was recorded: a later version may use what this one refuses.
        return Verdict(line, unknown=str(error)) if vouched else Verdict(line, (str(error),))


def is_canonical(shard: Shard, settings: dict[str, Any], data: bytes) -> bool:
    """Return whether the file is, to the byte, what we write for this content, and its latents have a source.

    Then the file is right, and a line of the manifest that has another hash is what was damaged.
    """
    return settings["source"]["kind"] in ("draw", "file") and encode_shard(shard, settings) == data


def content_problems(
    path: Path, settings: dict[str, Any], entry: ShardEntry, shard: Shard, *, compare_latents: bool = True
) -> list[str]:
    """Compare images, indices and latents with what the manifest and the recorded source name."""
    found = []
    size = settings["size"]
    due_shape = (entry.count, size, size, settings.get("channels", 3))
    if shard.images.shape != due_shape:
        # What follows is computed for as many images as the manifest says, which may be any number.
        return [f"images have the shape {shard.images.shape}, not {due_shape}"]
    if not np.array_equal(shard.index, np.arange(entry.first, entry.stop)):
        found.append(f"the indices are not {entry.first} to {entry.stop - 1}")
    if shard.pixel_sums() != (list(entry.pixel_sum), list(entry.pixel_sum_squares)):
        found.append("the pixels do not add up to the manifest's sums")
    if not (np.abs(shard.raw_latents) <= 1).all():
        found.append("a raw latent is outside [-1, 1]")
    # Hashes alone would not show that a file's latents and all its hashes were changed together. Its source does.
    try:
        due = recorded_latents(path, settings, entry.first, entry.count) if compare_latents else None
    except UserError as error:  # what keeps us from the source says nothing of the shard
        raise Unread(str(error)) from None
    if due is not None:
        if not np.array_equal(shard.raw_latents, due.raw):
            found.append("the raw latents are not those of the recorded source")
        if not np.array_equal(shard.scene_latents, world_of(settings).to_scene(due.raw)):
            found.append("the scene latents do not follow from the raw ones")
        if (due.classes is None) != (shard.classes is None) or (
            due.classes is not None and not np.array_equal(shard.classes, due.classes)  # type: ignore[arg-type]
        ):
            found.append("the classes are not those of the recorded source")
        if shard.columns.keys() != due.columns.keys() or not all(
            np.array_equal(shard.columns[name], column) for name, column in due.columns.items()
        ):
            found.append("the sequences, frames, views or environments are not those of the recorded source")
    return found


def whole_shard(folder: Path, settings: dict[str, Any], job: Job) -> ShardEntry | None:
    """Return the entry of the job's shard if its file is there and whole, else None.

    A shard is whole if it reads without error, records these settings, and holds just the job's images and latents. A
    killed run may have written it without entering it. Raise OSError or Unread if it is there and cannot be read.
    """
    path = folder / SHARDS / job.name
    try:
        data = read_plain(folder, f"{SHARDS}/{job.name}", largest_shard(settings, job.count))
        shard = read_shard(path, data)
        due = list(range(job.first, job.first + job.count))
        if read_settings(path, data) != settings or shard.index.tolist() != due:
            return None
        entry = entry_of(job.name, shard, data)
        return None if content_problems(folder, settings, entry, shard) else entry
    except Unread:  # it may well be whole, and is not made again for that
        raise
    except (FileNotFoundError, UserError):
        return None
