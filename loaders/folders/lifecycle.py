"""Making a dataset folder: beginning, continuing and growing it, what is left to do, and closing it.

Whatever the moment a run dies, the same call finds a folder that it can go on with.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.folders.folder import (
    DATASET_FILE,
    PARTS,
    SHARDS,
    Description,
    Folder,
    differences,
    is_dataset,
    missing_ranges,
    read_description,
    write_description,
)
from ident3d.loaders.format import latents_table, manifest
from ident3d.loaders.format.files import TEMPORARY
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.stores.lease import PREFIX

SHARD_IMAGES = 64  # of up to 448 pixels; about 1.8 MB at 224


@dataclass(frozen=True)
class Job:
    """One shard to make: images first … first+count-1 under this name, the first ones from `reuse` if it is there."""

    name: str
    first: int
    count: int
    reuse: ShardEntry | None = None

    @property
    def already(self) -> int:
        """How many of the images a shorter shard holds already."""
        return self.reuse.count if self.reuse else 0


def plan(description: Description, entries: Sequence[ShardEntry]) -> list[Job]:
    """The shards still to make. Shard k covers images k·K … (k+1)·K-1 below n, in whatever steps n grew."""
    by_first = {entry.first: entry for entry in entries}
    size, n = description.shard_size, description.n
    shards = -(-n // size)
    jobs = []
    for k in range(shards):
        first, count = k * size, min(size, n - k * size)
        entry = by_first.get(first)
        if entry is None or entry.count < count:
            jobs.append(Job(manifest.shard_name(k, shards), first, count, entry))
    return jobs


def intended(
    path: Path, settings: dict[str, Any], n: int, shard_size: int | None, *, cleared: bool = False
) -> Description:
    """What the folder is to become: new, continued or grown. Nothing is written.

    A folder of something else is refused, and so is a dataset of other settings, with the difference named. `cleared`
    says that our own dataset was just deleted from it: what else lies there was accepted before.
    """
    if not is_dataset(path):
        if not cleared and path.exists() and not (path.is_dir() and only_begun(path)):
            raise UserError(f"{path} exists and is not a dataset folder; choose another --out.")
        return Description(settings, n, shard_size or default_shard_size(settings["size"]))
    old = read_description(path)
    differ = differences(old.settings, settings)
    if shard_size not in (None, old.shard_size):
        differ.append(f"shard_size: {old.shard_size} there, {shard_size} asked for")
    if differ:
        raise UserError(f"{path} holds another dataset ({'; '.join(differ)}); choose another --out, or --fresh.")
    reached = max((entry.stop for entry in manifest.read_entries(path)), default=0)
    if n < reached:
        raise UserError(f"{path} holds images up to number {reached - 1} already; n can grow, not shrink to {n}.")
    return old if old.complete and n == old.n else Description(settings, n, old.shard_size)


def check_due(path: Path, settings: Mapping[str, Any], job: Job) -> None:
    """Refuse to write a shard that another run has grown or replaced since this job was handed out."""
    now = read_description(path)
    if now.settings != settings or job.count != min(now.shard_size, now.n - job.first):
        raise UserError(f"Another run has changed {path} since its shard {job.name} was begun.")


def only_begun(path: Path) -> bool:
    """Whether all that lies in the folder is what a run leaves that dies before its first line is written."""
    ours = [file for file in path.iterdir() if file.name not in PARTS or file.is_dir()]
    strangers = [file for file in ours if file.name != SHARDS and not file.name.startswith((TEMPORARY, PREFIX))]
    shards = path / SHARDS
    empty = not shards.exists() or not any(shards.iterdir())
    return not strangers and (empty or (path / manifest.MANIFEST_FILE).exists())


def begin(path: Path, settings: dict[str, Any], n: int, shard_size: int | None = None) -> Description:
    """Decide what the folder is to become, and write that down."""
    description = intended(path, settings, n, shard_size)
    write_down(path, description)
    return description


def write_down(path: Path, description: Description) -> None:
    """Write the folder's description, unless it says so already."""
    if not (is_dataset(path) and read_description(path) == description):
        (path / SHARDS).mkdir(parents=True, exist_ok=True)
        write_description(path, description)


def drop_lost(
    path: Path, description: Description, stored: Mapping[str, int] | None = None
) -> tuple[Description, list[ShardEntry]]:
    """Take the shards whose file is gone, or of another size, off the manifest, so that they are made again.

    `stored` has the sizes of the shards where they lie in a store.
    """
    entries = manifest.read_entries(path)
    folder = Folder(path, description, tuple(entries))
    there = [entry for entry in entries if folder.shard_size(entry, stored) == entry.bytes]
    if len(there) == len(entries):
        return description, entries
    description = reopened(description)
    write_down(path, description)
    manifest.write_entries(path, there)
    return description, there


def reopened(description: Description) -> Description:
    """The same dataset, not complete."""
    return Description(description.settings, description.n, description.shard_size)


def finish(
    path: Path,
    description: Description,
    write_card: Callable[[Path, Description], None] | None = None,
    table: NDArray[np.float32] | None = None,
) -> Description:
    """Close a folder all of whose shards are there: sorted manifest, card, and last the description with its totals.

    The `table` of all latents is gathered from the shards, unless it is given.
    """
    entries = manifest.read_entries(path)
    missing = list(missing_ranges(description.n, entries))
    if missing:
        raise UserError(f"{path} lacks images {missing[0][0]} to {missing[0][1] - 1}, so it cannot be closed.")
    try:
        world = World.from_dict(description.settings["world"])
        table = latents_table.gathered(path / SHARDS, entries, world) if table is None else table
        latents = latents_table.write(path, table)
    except UserError:  # a damaged shard is for `verify` to tell, and readers can do without
        latents = None
    pixels = description.n * description.size**2
    sums = [sum(entry.pixel_sum[c] for entry in entries) for c in range(3)]
    squares = [sum(entry.pixel_sum_squares[c] for entry in entries) for c in range(3)]
    description = replace(
        description,
        complete=True,
        bytes=sum(entry.bytes for entry in entries),
        pixel_mean=tuple(s / pixels / 255 for s in sums),
        pixel_std=tuple(sqrt(pixels * q - s * s) / pixels / 255 for s, q in zip(sums, squares, strict=True)),
        shards_sha256=manifest.write_entries(path, entries),
        all_latents=latents,
    )
    if write_card:
        write_card(path, description)
    write_description(path, description)
    return description


def default_shard_size(size: int) -> int:
    """64 images, fewer of large ones: a shard in the making takes about 40 MB of memory. It does not depend on n."""
    return max(1, min(SHARD_IMAGES, SHARD_IMAGES * 448**2 // size**2))


def remove_dataset(path: Path) -> int:
    """Delete the files that the folder's manifest lists and those beside it that we wrote; returns how many.

    The description goes last: until then the folder is a dataset, and a second call goes on.
    """
    if (path / SHARDS).is_symlink():
        raise UserError(f"{path / SHARDS} is a link; nothing is deleted through it.")
    listed = [path / SHARDS / entry.name for entry in manifest.readable_entries(path)]
    beside = [
        path / part for part in sorted(PARTS, key=lambda part: (part == DATASET_FILE, part == manifest.MANIFEST_FILE))
    ]
    files = [file for file in [*listed, *beside] if file.is_file()]
    for file in files:
        file.unlink()
    with suppress(OSError):
        (path / SHARDS).rmdir()  # unless it holds what is not ours
    return len(files)
