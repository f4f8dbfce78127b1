"""Repair: what the shards say of themselves is written down again, and what is broken is taken out of the folder.

Nothing is taken out unless it is proven wrong, and it goes into a folder ``removed-<time>``. Only what a hash proves
wrong may be deleted instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import missing_ranges
from ident3d.loaders.folders.judge import shard_bytes, shard_names
from ident3d.loaders.folders.store_transfer import push_repaired
from ident3d.loaders.format import manifest
from ident3d.loaders.format.aside import Aside
from ident3d.loaders.format.description import (
    DATASET_FILE,
    SHARDS,
    Description,
    NotOurs,
    description_of,
    digest_mismatch,
    read_description,
    write_description,
)
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.inside import NotPlain, remove
from ident3d.loaders.format.manifest import MANIFEST_FILE, ShardEntry
from ident3d.loaders.format.shard import Unread, read_settings, read_shard
from ident3d.loaders.stores.store import Store

# Bytes, while no description says how large its images are.
LARGEST_SHARD = 2**32


@dataclass(frozen=True)
class Problem:
    """Something that is not as recorded. `shard` is the name of the shard to make again, if a shard is broken."""

    what: str
    shard: str | None = None


@dataclass
class Findings:
    """What a verification found: what is wrong, what could not be judged, and what a repair has to do."""

    description: Description
    problems: list[Problem] = field(default_factory=list)
    unjudged: list[Problem] = field(default_factory=list)
    broken: dict[str, bool] = field(default_factory=dict)  # files to take out, and whether a hash proves them wrong
    entries: list[ShardEntry] = field(default_factory=list)  # what the manifest should list
    relist: bool = False  # whether the manifest does not say that
    unread: bool = False  # whether the system kept us from a shard that no line tells of
    whole: bool = True  # whether the dataset is still as complete as it says, once all is repaired

    @property
    def shards(self) -> list[str]:
        """The broken shards."""
        return [name.removeprefix(f"{SHARDS}/") for name in self.broken if name.startswith(f"{SHARDS}/")]


def description_or_rebuilt(where: Path | Store, folder: Path) -> tuple[Description, str | None]:
    """Return ``dataset.json`` or, if it is damaged, what the shards record of themselves; and what is wrong."""
    try:
        return read_description(folder), None
    except NotOurs:  # it is right as it is, and another version of ident3d may use it
        raise
    except UserError as error:
        what, names = str(error), shard_names(where)
    lines = {entry.name: entry for entry in readable_lines(folder)}
    # Nothing vouches for a shard but its line. One with another hash is asked only if there is none that has its own.
    first, last = (
        next((found for name in order if name in lines and (found := read_own(where, folder, name, lines))), None)
        or next((found for name in order if (found := read_own(where, folder, name))), None)
        for order in (names, names[::-1])
    )
    if not (first and last):
        raise UserError(what)
    # Shard k of equal shards begins at k · size; only a first shard that is the only one is measured by its count.
    size = max(1, last.begins // last.number if last.number else last.count)
    if first.settings != last.settings or any(
        own.begins != own.number * size or own.count > size for own in (first, last)
    ):
        raise UserError(f"{what} The shards {first.number} and {last.number} do not agree on what it said.")
    # A shard that is there and cannot be taken apart may be full if no line tells, and is never one too many.
    highest = max(int(name.removesuffix(".h5")) for name in names)
    whole = (highest + 1) * size if highest > last.number and names[-1] not in lines else 0
    n = max(last.begins + last.count, whole, *(entry.stop for entry in lines.values()))
    try:
        return description_of(asdict(Description(first.settings, n, size))), what
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"{what} Nor do its shards say what a dataset must: {error}.") from None


@dataclass(frozen=True)
class Own:
    """What a shard records of itself: its settings, its first image, and how many images it has."""

    number: int
    settings: dict[str, Any]
    begins: int
    count: int


def read_own(where: Path | Store, folder: Path, name: str, lines: Mapping[str, ShardEntry] | None = None) -> Own | None:
    """Return what a shard records of itself, if it is one; with `lines`, only if it has the hash of its line."""
    try:
        data = shard_bytes(where, name, LARGEST_SHARD)
        if lines and sha256(data) != lines[name].sha256:
            return None
        shard = read_shard(folder / SHARDS / name, data)
        settings = read_settings(folder / SHARDS / name, data)
        return Own(int(name.removesuffix(".h5")), settings, int(shard.index[0]), len(shard.index))
    except Unread:  # what cannot be read now may be the last shard, which says how many images there are
        raise
    except (UserError, FileNotFoundError, IndexError):
        return None


def candidates(
    where: Path | Store, folder: Path, description: Description
) -> tuple[list[tuple[str, ShardEntry | None]], bool, str | None]:
    """Return the shards to judge with their lines, whether the manifest is vouched for, and what is wrong with it.

    If the manifest is damaged or lost, all shards that are there are candidates, and those of its readable lines.
    """
    what = None
    try:
        entries, digest = manifest.read_manifest(folder)
        list(missing_ranges(description.n, entries))
        if description.complete and digest != description.shards_sha256:
            what = digest_mismatch(folder / MANIFEST_FILE)
    except UserError as error:
        entries, what = readable_lines(folder), str(error)
    there = shard_names(where) if what or not entries else []
    if there and not what:
        what = f"{folder / MANIFEST_FILE} lists no shard, but {len(there)} are there."
    if not what:
        return [(entry.name, entry) for entry in entries], description.complete, None
    lines = {entry.name: entry for entry in entries if entry.stop <= description.n}
    return [(name, lines.get(name)) for name in sorted({*there, *lines})], False, what


def readable_lines(folder: Path) -> list[ShardEntry]:
    """Return the entries of the manifest's lines that can be read; none if it is a FIFO or a link."""
    try:
        return manifest.readable_entries(folder)
    except NotPlain:
        return []


def repair_folder(folder: Path, findings: Findings, *, delete: bool) -> tuple[Aside, list[str]]:
    """Take out what is broken, write the description and the manifest as they should be, and say what was done.

    Wherever this ends, by a crash or a full disk, the next repair finds what is left to do. For what shows a file to be
    wrong goes after it: a shard's line after the shard, and the description last. Until then it records the hash of
    another manifest, so that a folder that lacks shards never passes for whole. A description that is lost comes before
    the manifest, whose lines tell how many images there should be.
    """
    aside, done, deleted = Aside(folder), list[str](), list[str]()
    lost = DATASET_FILE in findings.broken

    def take_out(names: Iterable[str]) -> None:
        for name in names:
            if delete and findings.broken[name]:
                remove(folder, name)
                deleted.append(name)
            else:
                aside.take(name)

    take_out(name for name in findings.broken if name != DATASET_FILE)
    if deleted:
        done.append(f"Deleted: {', '.join(deleted)}.")
    if lost:
        aside.take(DATASET_FILE)
        write_description(folder, findings.description.as_incomplete())
        done.append(f"{DATASET_FILE} is written anew from what the shards record.")
    if findings.relist or findings.shards:
        # The old lines are kept: they say which hash a shard that was taken out should have had.
        if not delete or findings.relist:
            aside.take(MANIFEST_FILE)
        manifest.write_entries(folder, findings.entries)
        of_all = "all" if findings.whole else f"{sum(entry.count for entry in findings.entries):,}"
        done.append(f"{MANIFEST_FILE} is written anew from {len(findings.entries)} shards, with {of_all} images.")
    if not findings.whole and not lost:
        write_description(folder, findings.description.as_incomplete())
    return aside, done


def repair_store(store: Store, folder: Path, findings: Findings, aside: Aside, *, delete: bool) -> list[str]:
    """Do in the store what was done to the copies of its small files; return the names of what was put aside."""
    names = [f"{SHARDS}/{name}" for name in findings.shards]
    kept = [*aside.moved, *(name for name in names if not (delete and findings.broken[name]))]
    moved = []
    for name in kept:
        # A store has no rename: the copy is there before the object goes.
        data = store.get(name)
        if data is not None:
            store.put(f"{aside.place()}/{name}", data)
            moved.append(name)
    push_repaired(store, folder, findings.shards, findings.broken)
    return moved


def sentence_of_moved(where: Path | Store, aside: Aside, moved: Sequence[str]) -> list[str]:
    """Return the sentence that says where the files went."""
    return [f"Moved to {where}/{aside.name}: {', '.join(moved)}."] if moved else []
