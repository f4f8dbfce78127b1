"""``verify``: reads every byte of a dataset once and compares it with what the folder says of itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import (
    SHARDS,
    Description,
    Folder,
    is_dataset,
    missing_ranges,
    read_description,
    write_description,
)
from ident3d.loaders.folders.lifecycle import reopened
from ident3d.loaders.folders.packed import packed_problem, remove_packed
from ident3d.loaders.folders.store_transfer import looking, push_repaired, take_shard
from ident3d.loaders.format import manifest
from ident3d.loaders.format.files import remove_partial_files, sha256, sha256_of_file
from ident3d.loaders.format.latents_source import LATENTS_FILE, copy_is_sound, recorded_latents, world_of
from ident3d.loaders.format.latents_table import TABLE_FILE, gathered, joined
from ident3d.loaders.format.latents_table import read as read_table
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import Shard, read_settings, read_shard
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.loaders.stores.store_lease import lease_on_store
from ident3d.progress import progress_bar


@dataclass(frozen=True)
class Problem:
    """Something that is not as recorded; `shard` is the name of the shard to make again, where it is a shard's."""

    what: str
    shard: str | None = None


@dataclass(frozen=True)
class Verified:
    """The result of a verification: images that are as recorded, images still missing, and everything that is wrong."""

    path: Path | Store
    good: int
    missing: int
    problems: tuple[Problem, ...]
    repaired: bool = False

    @property
    def sound(self) -> bool:
        """Complete, and nothing wrong."""
        return not self.problems and not self.missing


def verify(path: Path | str, *, repair: bool = False, show_progress: bool = True) -> Verified:
    """Check every hash, shape, index and latent of a dataset folder once.

    Latents must lie in [-1, 1] and equal what their recorded source gives (seed, copied file or import), and a packed
    file its recorded hash. With `repair`, broken shards and their manifest lines are removed, so that the same `render`
    makes them again, and so is a broken packed file.
    """
    where = store_or_folder(path)
    store = where if isinstance(where, Store) else None
    if isinstance(where, Path) and not (is_dataset(where) or (where / manifest.MANIFEST_FILE).exists()):
        raise UserError(f"{where} is not a dataset folder.")
    holding = lease_on_store(where) if isinstance(where, Store) else lease(where)
    with holding if repair else nullcontext() as held, looking(where, (LATENTS_FILE, TABLE_FILE)) as folder:
        description, problems = described(folder)
        entries, more = listed(folder, description)
        problems += more
        copy_is_good = copy_is_sound(folder, description.settings)
        if not copy_is_good:
            problems.append(Problem(f"{LATENTS_FILE} is not the file of latents that this dataset was begun with."))
        unpacked = packed_problem(Folder(folder, description, tuple(entries)))
        if unpacked:
            problems.append(Problem(unpacked))
        good, broken, latents = 0, set[str](), list[NDArray[np.float32]]()
        with progress_bar(sum(entry.count for entry in entries), "images", show=show_progress) as bar:
            for entry in entries:
                with at_hand(store, folder, entry):
                    found = shard_problems(folder, description.settings, entry, compare_latents=copy_is_good)
                    if not found:
                        latents.append(gathered(folder / SHARDS, [entry], world_of(description.settings)))
                problems += [Problem(f"{entry.name}: {what}", entry.name) for what in found]
                good += 0 if found else entry.count
                broken |= {entry.name} if found else set()
                bar.update(entry.count)
        if not broken and (table := table_problem(folder, description, latents)):
            problems.append(Problem(table))
        missing = max(0, description.n - sum(entry.count for entry in entries))
        if held and problems:
            held.check()
            keep = [entry for entry in entries if entry.name not in broken]
            if broken or len(problems) > bool(unpacked):
                remove_broken(folder, description, keep, broken)
            if unpacked or broken:
                remove_packed(folder)
            if not copy_is_good:
                (folder / LATENTS_FILE).unlink(missing_ok=True)
            if store:
                push_repaired(store, folder, broken)
        problems = [Problem(problem.what.replace(str(folder), str(where)), problem.shard) for problem in problems]
    return Verified(where, good, missing, tuple(problems), repaired=repair and bool(problems))


@contextmanager
def at_hand(store: Store | None, folder: Path, entry: ShardEntry) -> Iterator[None]:
    """Have the shard in the folder: of a store as it is there now, and only as long as it is looked at."""
    if store:
        take_shard(store, entry.name, folder)
    yield
    if store:
        (folder / SHARDS / entry.name).unlink(missing_ok=True)


def table_problem(path: Path, description: Description, latents: Sequence[NDArray[np.float32]]) -> str | None:
    """What is wrong with the table of all latents, where one is recorded; `latents` are those of the shards."""
    if not (description.complete and description.all_latents):
        return None
    found = read_table(path, description.all_latents, description.n, world_of(description.settings).n_raw)
    if found is None:
        return f"{TABLE_FILE} is missing or does not match its sha256"
    table = joined(*found)
    same = all(rows.shape[1:] == table.shape[1:] for rows in latents) and np.array_equal(table, np.concatenate(latents))
    return None if same else f"{TABLE_FILE} does not hold the latents of the shards"


def described(path: Path) -> tuple[Description, list[Problem]]:
    """``dataset.json``, or, where it is damaged, what the shards say of themselves."""
    try:
        return read_description(path), []
    except UserError as error:
        entries = manifest.readable_entries(path)
        for entry in entries:
            try:
                settings = read_settings(path / SHARDS / entry.name)
            except UserError:
                continue
            number = int(entry.name.removesuffix(".h5"))
            size = entry.first // number if number else entry.count
            return Description(settings, max(e.stop for e in entries), max(1, size)), [Problem(str(error))]
        raise


def listed(path: Path, description: Description) -> tuple[list[ShardEntry], list[Problem]]:
    """The manifest's entries without overlap, and what is wrong with the manifest itself."""
    try:
        entries = manifest.read_entries(path)
        list(missing_ranges(description.n, entries))
    except UserError as error:
        kept: list[ShardEntry] = []
        for entry in manifest.readable_entries(path):
            if entry.first >= (kept[-1].stop if kept else 0) and entry.stop <= description.n:
                kept.append(entry)
        return kept, [Problem(str(error))]
    if description.complete and sha256_of_file(path / manifest.MANIFEST_FILE) != description.shards_sha256:
        return entries, [
            Problem(f"{path / manifest.MANIFEST_FILE} was changed after it was written: its digest does not match.")
        ]
    return entries, []


def shard_problems(
    path: Path, settings: dict[str, Any], entry: ShardEntry, *, compare_latents: bool = True
) -> list[str]:
    """What is wrong with one shard, in words; an empty list if nothing is."""
    file = path / SHARDS / entry.name
    if not file.is_file() or file.is_symlink():
        return ["the file is missing"]
    if sha256(file.read_bytes()) != entry.sha256:
        return ["the file does not match its sha256"]
    try:
        shard = read_shard(file)
        if read_settings(file) != settings:
            return ["the shard was made with other settings than the dataset"]
        return content_problems(path, settings, entry, shard, compare_latents=compare_latents)
    except UserError as error:
        return [str(error)]


def content_problems(
    path: Path, settings: dict[str, Any], entry: ShardEntry, shard: Shard, *, compare_latents: bool = True
) -> list[str]:
    """Whether images, indices and latents are those that the manifest and the recorded source name."""
    found = []
    size = settings["size"]
    if shard.images.shape != (entry.count, size, size, 3):
        found.append(f"images have the shape {shard.images.shape}, not {(entry.count, size, size, 3)}")
    if not np.array_equal(shard.index, np.arange(entry.first, entry.stop)):
        found.append(f"the indices are not {entry.first} to {entry.stop - 1}")
    if shard.pixel_sums() != (list(entry.pixel_sum), list(entry.pixel_sum_squares)):
        found.append("the pixels do not add up to the manifest's sums")
    if not (np.abs(shard.raw_latents) <= 1).all():
        found.append("a raw latent is outside [-1, 1]")
    due = recorded_latents(path, settings, entry.first, entry.count) if compare_latents else None
    if due is not None:
        if not np.array_equal(shard.raw_latents, due.raw):
            found.append("the raw latents are not those of the recorded source")
        if not np.array_equal(shard.scene_latents, world_of(settings).to_scene(due.raw)):
            found.append("the scene latents do not follow from the raw ones")
        if (due.classes is None) != (shard.classes is None) or (
            due.classes is not None and not np.array_equal(shard.classes, due.classes)  # type: ignore[arg-type]
        ):
            found.append("the classes are not those of the recorded source")
    return found


def remove_broken(path: Path, description: Description, keep: Sequence[ShardEntry], broken: set[str]) -> None:
    """Delete broken shards and list what is left; the folder is incomplete until `render` has run."""
    write_description(path, reopened(description))
    (path / TABLE_FILE).unlink(missing_ok=True)
    manifest.write_entries(path, keep)
    for name in broken:
        (path / SHARDS / name).unlink(missing_ok=True)
    remove_partial_files(path)
    remove_partial_files(path / SHARDS)
