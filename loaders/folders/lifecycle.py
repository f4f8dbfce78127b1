"""The life of a dataset folder: begin, continue or grow it, plan what is left to do, close it, delete it.

At whatever moment a run dies, the same call finds a folder that it can continue.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.folders.card import write_card
from ident3d.loaders.folders.folder import PARTS, is_dataset, missing_ranges
from ident3d.loaders.format import latents_table, manifest
from ident3d.loaders.format.aside import REMOVED
from ident3d.loaders.format.description import (
    SHARDS,
    Description,
    default_shard_size,
    differences,
    read_description,
    write_description,
)
from ident3d.loaders.format.files import TEMPORARY
from ident3d.loaders.format.inside import make_below, names_in, read_plain, remove
from ident3d.loaders.format.latents_source import GENERATED, world_of
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import MEND, Unread, read_settings, settings_text
from ident3d.loaders.stores.lease import LEASE_PREFIX


@dataclass(frozen=True)
class Job:
    """One shard to make: images first … first+count-1 under this name. The shorter shard `reuse` has the first ones."""

    name: str
    first: int
    count: int
    reuse: ShardEntry | None = None

    @property
    def already(self) -> int:
        """The number of images that a shorter shard holds already."""
        return self.reuse.count if self.reuse else 0


def plan(description: Description, entries: Sequence[ShardEntry]) -> list[Job]:
    """Return the shards still to make. Shard k covers images k·K … (k+1)·K-1 below n, in whatever steps n grew."""
    # Where a shard begins depends on its number and the shard size alone. So a dataset that grew in steps has the same
    # files as one that was made at once.
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


def target_description(
    path: Path, settings: dict[str, Any], n: int, shard_size: int | None, *, cleared: bool = False
) -> tuple[Description, list[ShardEntry]]:
    """Return what the folder is to become (new, continued or grown) and the shards in its manifest.

    Nothing is written. Raise UserError if the folder holds something else, or a dataset of other settings. `cleared`
    says that this run has just deleted its own dataset there: what else the folder holds was accepted before.

    Of a manifest that is lost, or not the recorded one, no entry is returned, and a warning is given.
    """
    # No shard could record them. This is said before hours are spent on the first one.
    settings_text(settings)
    if not is_dataset(path):
        if not cleared and path.exists() and not (path.is_dir() and is_unfinished_start(path)):
            raise UserError(f"{path} exists and is not a dataset folder; choose another --out.")
        entries = manifest.read_entries(path)
        description = Description(settings, n, shard_size or default_shard_size(settings["size"]))
        check_shards(path, description, entries)
        return description, entries
    # Images of other settings must never be mixed into a dataset: nothing would show which image is which.
    old = read_description(path)
    differ = differences(old.settings, settings)
    if shard_size not in (None, old.shard_size):
        differ.append(f"shard_size: {old.shard_size} there, {shard_size} asked for")
    if differ:
        # Only what is rendered can be begun anew by an option.
        by = "" if settings["source"]["kind"] in ("import", GENERATED) else " with --fresh"
        raise UserError(f"{path} holds another dataset ({'; '.join(differ)}); choose another --out, or delete it{by}.")
    entries, lost = sound_entries(path, old)
    # Neither lines nor shards are what a deletion leaves that was killed.
    if lost and ((path / manifest.MANIFEST_FILE).exists() or names_in(path, SHARDS)):
        what = f"{manifest.MANIFEST_FILE} is not used ({lost})"
        warnings.warn(f"{what}; the shards that are there are checked and entered anew.", stacklevel=3)
    reached = old.n if old.complete else max((entry.stop for entry in entries), default=0)
    if n < reached:
        raise UserError(f"{path} already holds images up to number {reached - 1}; n can grow, but not shrink to {n}.")
    keep = old.complete and n == old.n and not lost
    return old if keep else Description(settings, n, old.shard_size), entries


def sound_entries(path: Path, description: Description) -> tuple[list[ShardEntry], str]:
    """Return the manifest's entries, and why there are none if it cannot be believed."""
    try:
        entries, digest = manifest.read_manifest(path)
        list(missing_ranges(description.n, entries))
    except UserError as error:
        return [], str(error).removesuffix(f"; {MEND}").removesuffix(".")
    if description.complete and digest != description.shards_sha256:
        return [], "it is not the one that was recorded"
    return entries, ""


def check_shards(path: Path, description: Description, entries: Sequence[ShardEntry]) -> None:
    """Raise UserError if a manifest without a description lists shards of another dataset, size or number."""
    # A shard would be written over another that only has its name.
    for entry in entries:
        begins = int(entry.name.removesuffix(".h5")) * description.shard_size
        if entry.first != begins or entry.count > description.shard_size or entry.stop > description.n:
            raise UserError(
                f"{path} has lost its dataset.json, and its shard {entry.name} holds images {entry.first} to "
                f"{entry.stop - 1}: give the --shard-size and --n that it was made with, or let "
                f"`ident3d verify --repair` find them."
            )
    # The first that can be read speaks for all.
    for entry in entries:
        try:
            data = read_plain(path, f"{SHARDS}/{entry.name}", entry.bytes)
            differ = differences(read_settings(path / SHARDS / entry.name, data), description.settings)
        except Unread:
            raise
        except (FileNotFoundError, UserError):
            continue
        if differ:
            raise UserError(f"{path} holds another dataset ({'; '.join(differ)}); choose another --out.")
        return


def check_due(path: Path, settings: Mapping[str, Any], job: Job) -> None:
    """Raise UserError if another run has changed the dataset since this job was handed out."""
    # Rendering a shard takes minutes, and the worker holds no lease: only the client does.
    now = read_description(path)
    if now.settings != settings or job.count != min(now.shard_size, now.n - job.first):
        raise UserError(f"Another run has changed {path} since the work on its shard {job.name} began.")


def is_unfinished_start(path: Path) -> bool:
    """Return whether the folder holds only what a run leaves that dies before it has written ``dataset.json``."""
    # Whatever else lies there is somebody's work, and a dataset must not be mixed into it. So is a README.md or a
    # latents.npy without a manifest: a run would write over it.
    parts = PARTS if manifest.readable_entries(path) else (manifest.MANIFEST_FILE,)
    unknown = [file for file in path.iterdir() if file.name not in parts or file.is_dir()]
    ours = (TEMPORARY, LEASE_PREFIX, REMOVED)
    strangers = [file for file in unknown if file.name != SHARDS and not file.name.startswith(ours)]
    shards = path / SHARDS
    empty = not shards.exists() or not any(shards.iterdir())
    return not strangers and (empty or (path / manifest.MANIFEST_FILE).exists())


def begin(path: Path, settings: dict[str, Any], n: int, shard_size: int | None = None) -> Description:
    """Begin, continue or grow the dataset in the folder: write down and return what it is to become."""
    description, _ = target_description(path, settings, n, shard_size)
    save_if_changed(path, description)
    return description


def save_if_changed(path: Path, description: Description) -> None:
    """Write the folder's description, unless the folder has the same one already."""
    if not (is_dataset(path) and read_description(path) == description):
        path.mkdir(parents=True, exist_ok=True)
        write_description(path, description)
    # It may be gone although the description is there, or be a link, which is refused.
    make_below(path, SHARDS)


def drop_missing_shards(
    path: Path, description: Description, entries: Sequence[ShardEntry], present: Sequence[ShardEntry]
) -> Description:
    """Keep only the `present` shards in the manifest, so that the others are made again; return the description."""
    if len(present) == len(entries):
        return description
    # The description goes first: a folder that says it is complete must never have a manifest with a gap.
    description = description.as_incomplete()
    save_if_changed(path, description)
    manifest.write_entries(path, present)
    return description


def finish(
    path: Path,
    description: Description,
    entries: Sequence[ShardEntry],
    *,
    mesh_credits: Sequence[str] | None = None,
    table: NDArray[np.float32] | None = None,
) -> Description:
    """Close a folder that has all its shards: write the sorted manifest, the card, and last the description's totals.

    `entries` are all entries of the manifest, in order. The card names the `mesh_credits`; with None there is no card.
    `table` holds all latents; without it they are read from the shards.
    """
    missing = list(missing_ranges(description.n, entries))
    if missing:
        raise UserError(f"{path} lacks images {missing[0][0]} to {missing[0][1] - 1}, so it cannot be closed.")
    try:
        world = world_of(description.settings)
        table = latents_table.gather_table(path / SHARDS, entries, world) if table is None else table
        latents = latents_table.write_table(path, table)
    except Unread:  # another try may read it
        raise
    except UserError:  # a shard is damaged: `verify` reports it, and readers can do without the table
        latents = None
    pixels = description.n * description.size**2
    mean, std = manifest.pixel_moments(path, entries, pixels, description.channels)
    description = replace(
        description,
        complete=True,
        bytes=sum(entry.bytes for entry in entries),
        pixel_mean=mean,
        pixel_std=std,
        shards_sha256=manifest.write_entries(path, entries),
        all_latents=latents,
    )
    if mesh_credits is not None:
        write_card(path, description, entries, mesh_credits)
    # The description goes last: it says that the dataset is complete, so all the rest must be there before it.
    write_description(path, description)
    return description


def remove_dataset(path: Path) -> int:
    """Delete the shards that the folder's manifest lists and the other files of a dataset; return how many."""
    # The shards go first. If the process dies between two of them, the manifest still lists what is left.
    listed = [f"{SHARDS}/{entry.name}" for entry in manifest.readable_entries(path)]
    files = [name for name in (*listed, *PARTS) if (path / name).is_file()]
    for name in files:
        remove(path, name)
    with suppress(OSError):
        (path / SHARDS).rmdir()  # unless it holds what is not ours
    return len(files)
