"""``verify``: read every byte of a dataset once and compare it with what the folder records of itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import (
    SHARDS,
    Description,
    Folder,
    digest_mismatch,
    is_dataset,
    missing_ranges,
    read_description,
    write_description,
)
from ident3d.loaders.folders.lifecycle import as_incomplete
from ident3d.loaders.folders.packed import packed_problem, remove_packed
from ident3d.loaders.folders.store_transfer import local_copy, push_repaired, take_shard
from ident3d.loaders.format import manifest
from ident3d.loaders.format.files import remove_partial_files, sha256
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
    """Something that is not as recorded. `shard` is the name of the shard to make again, if a shard is broken."""

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


@dataclass
class Findings:
    """What a verification found wrong, part by part, so that a repair can ask each of them."""

    lists: list[str]  # dataset.json and shards.jsonl
    latents_file: str | None
    packed: str | None
    shards: dict[str, list[str]] = field(default_factory=dict)  # by the shard's name
    table: str | None = None

    def problems(self) -> list[Problem]:
        """Return all of it, in the order in which it is reported."""
        before = [Problem(what) for what in (*self.lists, self.latents_file, self.packed) if what]
        shards = [Problem(f"{name}: {what}", name) for name, found in self.shards.items() for what in found]
        return before + shards + ([Problem(self.table)] if self.table else [])

    @property
    def only_packed(self) -> bool:
        """Whether nothing but the packed file is wrong, so that the dataset itself stays complete."""
        return not (self.lists or self.latents_file or self.shards or self.table)


def verify(path: Path | str, *, repair: bool = False, show_progress: bool = True) -> Verified:
    """Check every hash, shape, index and latent of a dataset folder once.

    Latents must lie in [-1, 1] and equal what their recorded source gives (seed, copied file or import), and a packed
    file its recorded hash. With `repair`, broken shards and their manifest lines are removed, so that the same `render`
    makes them again, and so is a broken packed file.

    Args:
        path: The dataset folder, or its address in a store.
        repair: Remove what is broken.
        show_progress: Show a progress bar.

    Returns:
        A `Verified`: the number of good images, and the problems.

    Example:
        >>> import ident3d
        >>> found = ident3d.verify(dataset, show_progress=False)
        >>> found.good, found.problems
        (16, ())
    """
    where = store_or_folder(path)
    if isinstance(where, Path) and not (is_dataset(where) or (where / manifest.MANIFEST_FILE).exists()):
        raise UserError(f"{where} is not a dataset folder.")
    holding = lease_on_store(where) if isinstance(where, Store) else lease(where)
    with holding if repair else nullcontext() as held, local_copy(where, (LATENTS_FILE, TABLE_FILE)) as folder:
        description, entries, findings = inspect(where, folder, show_progress)
        problems = findings.problems()
        if held and problems:
            # Another process may have taken the lease over during a check of hours; it may be writing by now.
            held.check()
            remove_broken(folder, description, entries, findings)
            if isinstance(where, Store):
                push_repaired(where, folder, set(findings.shards))
    # A store's small files were read from a folder of the cache, whose name means nothing to the user.
    problems = [Problem(problem.what.replace(str(folder), str(where)), problem.shard) for problem in problems]
    good = sum(entry.count for entry in entries if entry.name not in findings.shards)
    missing = max(0, description.n - sum(entry.count for entry in entries))
    return Verified(where, good, missing, tuple(problems), repaired=repair and bool(problems))


def inspect(where: Path | Store, folder: Path, show_progress: bool) -> tuple[Description, list[ShardEntry], Findings]:
    """Read everything once: the description and the entries that can be used, and what is wrong."""
    description, lists = description_or_rebuilt(folder)
    entries, more = entries_or_readable(folder, description)
    file_is_sound = copy_is_sound(folder, description.settings)
    findings = Findings(
        lists + more,
        None if file_is_sound else f"{LATENTS_FILE} is not the latents file that this dataset was started with.",
        packed_problem(Folder(folder, description, tuple(entries))),
    )
    latents: list[NDArray[np.float32]] = []
    with progress_bar(sum(entry.count for entry in entries), "images", show=show_progress) as bar:
        for entry in entries:
            with local_shard(where, folder, entry):
                found = shard_problems(folder, description.settings, entry, compare_latents=file_is_sound)
                if found:
                    findings.shards[entry.name] = found
                else:
                    latents.append(gathered(folder / SHARDS, [entry], world_of(description.settings)))
            bar.update(entry.count)
    if not findings.shards:
        findings.table = table_problem(folder, description, latents)
    return description, entries, findings


@contextmanager
def local_shard(where: Path | Store, folder: Path, entry: ShardEntry) -> Iterator[None]:
    """Have the shard in the folder. A store's is downloaded past the cache, as it is there now, and then removed."""
    if isinstance(where, Store):
        take_shard(where, entry.name, folder)
    yield
    if isinstance(where, Store):
        (folder / SHARDS / entry.name).unlink(missing_ok=True)


def table_problem(path: Path, description: Description, latents: Sequence[NDArray[np.float32]]) -> str | None:
    """Return what is wrong with the table of all latents, if one is recorded; `latents` are those of the shards."""
    if not (description.complete and description.all_latents):
        return None
    found = read_table(path, description.all_latents, description.n, world_of(description.settings).n_raw)
    if found is None:
        return f"{TABLE_FILE} is missing or does not match its sha256"
    table = joined(*found)
    alike = bool(latents) and all(rows.shape[1:] == table.shape[1:] for rows in latents)
    same = alike and np.array_equal(table, np.concatenate(latents))
    return None if same else f"{TABLE_FILE} does not hold the latents of the shards"


def description_or_rebuilt(path: Path) -> tuple[Description, list[str]]:
    """Return ``dataset.json`` or, if it is damaged, what the shards record of themselves; and what is wrong."""
    try:
        return read_description(path), []
    except UserError as error:
        entries = manifest.readable_entries(path)
        for entry in entries:
            try:
                settings = read_settings(path / SHARDS / entry.name)
            except UserError:
                continue
            # Shard k of equal shards begins at k · size; only the first shard of all must be measured by its count.
            number = int(entry.name.removesuffix(".h5"))
            size = entry.first // number if number else entry.count
            return Description(settings, max(e.stop for e in entries), max(1, size)), [str(error)]
        raise


def entries_or_readable(path: Path, description: Description) -> tuple[list[ShardEntry], list[str]]:
    """Return the manifest's entries or, if it is damaged, those of them that can be used; and what is wrong."""
    try:
        entries, digest = manifest.read_manifest(path)
        list(missing_ranges(description.n, entries))
    except UserError as error:
        kept: list[ShardEntry] = []
        for entry in manifest.readable_entries(path):
            if entry.first >= (kept[-1].stop if kept else 0) and entry.stop <= description.n:
                kept.append(entry)
        return kept, [str(error)]
    if description.complete and digest != description.shards_sha256:
        return entries, [digest_mismatch(path / manifest.MANIFEST_FILE)]
    return entries, []


def shard_problems(
    path: Path, settings: dict[str, Any], entry: ShardEntry, *, compare_latents: bool = True
) -> list[str]:
    """Return what is wrong with one shard, in words; an empty list if nothing is."""
    file = path / SHARDS / entry.name
    if not file.is_file() or file.is_symlink():
        return ["the file is missing"]
    # The hash comes first: nothing of a file that was changed is parsed.
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


def remove_broken(path: Path, description: Description, entries: Sequence[ShardEntry], findings: Findings) -> None:
    """Remove all that is broken. Unless that is the packed file alone, the folder is incomplete until `render` has run.

    The description goes first: after a crash the folder is incomplete, and never claims to be whole.
    """
    if not findings.only_packed:
        write_description(path, as_incomplete(description))
        (path / TABLE_FILE).unlink(missing_ok=True)
        manifest.write_entries(path, [entry for entry in entries if entry.name not in findings.shards])
        for name in findings.shards:
            (path / SHARDS / name).unlink(missing_ok=True)
        remove_partial_files(path)
        remove_partial_files(path / SHARDS)
    if findings.packed or findings.shards:
        remove_packed(path)
    if findings.latents_file:
        (path / LATENTS_FILE).unlink(missing_ok=True)
