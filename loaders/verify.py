"""``verify``: reads every byte of a dataset once and compares it with what the folder says of itself."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.errors import UserError
from ident3d.loaders import all_latents, manifest
from ident3d.loaders.files import remove_partial_files, sha256, sha256_of_file
from ident3d.loaders.folder import (
    SHARDS,
    Description,
    Folder,
    is_dataset,
    missing_ranges,
    read_description,
    write_description,
)
from ident3d.loaders.lease import lease
from ident3d.loaders.making import reopened
from ident3d.loaders.manifest import Entry
from ident3d.loaders.pack import packed_problem, remove_packed
from ident3d.loaders.shards import Shard, read_settings, read_shard
from ident3d.loaders.source import COPY, copy_is_sound, recorded_latents, world_of
from ident3d.progress import progress_bar


@dataclass(frozen=True)
class Problem:
    """Something that is not as recorded; `shard` is the name of the shard to make again, where it is a shard's."""

    what: str
    shard: str | None = None


@dataclass(frozen=True)
class Verified:
    """The result of a verification: images that are as recorded, images still missing, and everything that is wrong."""

    path: Path
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
    path = Path(path)
    if not path.is_dir() or not (is_dataset(path) or (path / manifest.FILE).exists()):
        raise UserError(f"{path} is not a dataset folder.")
    with lease(path) if repair else nullcontext() as held:
        description, problems = described(path)
        entries, more = listed(path, description)
        problems += more
        copy_is_good = copy_is_sound(path, description.settings)
        if not copy_is_good:
            problems.append(Problem(f"{COPY} is not the file of latents that this dataset was begun with."))
        unpacked = packed_problem(Folder(path, description, tuple(entries)))
        if unpacked:
            problems.append(Problem(unpacked))
        good, broken = 0, set[str]()
        with progress_bar(sum(entry.count for entry in entries), "images", show=show_progress) as bar:
            for entry in entries:
                found = shard_problems(path, description.settings, entry, compare_latents=copy_is_good)
                problems += [Problem(f"{entry.name}: {what}", entry.name) for what in found]
                good += 0 if found else entry.count
                broken |= {entry.name} if found else set()
                bar.update(entry.count)
        if not broken and (table := table_problem(path, description, entries)):
            problems.append(Problem(table))
        missing = max(0, description.n - sum(entry.count for entry in entries))
        if held and problems:
            held.check()
            keep = [entry for entry in entries if entry.name not in broken]
            if broken or len(problems) > bool(unpacked):
                remove_broken(path, description, keep, broken)
            if unpacked or broken:
                remove_packed(path)
            if not copy_is_good:
                (path / COPY).unlink(missing_ok=True)
    return Verified(path, good, missing, tuple(problems), repaired=repair and bool(problems))


def table_problem(path: Path, description: Description, entries: Sequence[Entry]) -> str | None:
    """What is wrong with the table of all latents, where one is recorded."""
    if not (description.complete and description.all_latents):
        return None
    world = world_of(description.settings)
    found = all_latents.read(path, description.all_latents, description.n, world.n_raw)
    if found is None:
        return f"{all_latents.FILE} is missing or does not match its sha256"
    raw, classes = found
    table = raw if classes is None else np.column_stack([raw, classes.astype(np.float32)])
    same = np.array_equal(table, all_latents.gathered(path / SHARDS, entries, world))
    return None if same else f"{all_latents.FILE} does not hold the latents of the shards"


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


def listed(path: Path, description: Description) -> tuple[list[Entry], list[Problem]]:
    """The manifest's entries without overlap, and what is wrong with the manifest itself."""
    try:
        entries = manifest.read_entries(path)
        list(missing_ranges(description.n, entries))
    except UserError as error:
        kept: list[Entry] = []
        for entry in manifest.readable_entries(path):
            if entry.first >= (kept[-1].stop if kept else 0) and entry.stop <= description.n:
                kept.append(entry)
        return kept, [Problem(str(error))]
    if description.complete and sha256_of_file(path / manifest.FILE) != description.shards_sha256:
        return entries, [
            Problem(f"{path / manifest.FILE} was changed after it was written: its digest does not match.")
        ]
    return entries, []


def shard_problems(path: Path, settings: dict[str, Any], entry: Entry, *, compare_latents: bool = True) -> list[str]:
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
    path: Path, settings: dict[str, Any], entry: Entry, shard: Shard, *, compare_latents: bool = True
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


def remove_broken(path: Path, description: Description, keep: Sequence[Entry], broken: set[str]) -> None:
    """Delete broken shards and list what is left; the folder is incomplete until `render` has run."""
    write_description(path, reopened(description))
    (path / all_latents.FILE).unlink(missing_ok=True)
    manifest.write_entries(path, keep)
    for name in broken:
        (path / SHARDS / name).unlink(missing_ok=True)
    remove_partial_files(path)
    remove_partial_files(path / SHARDS)
