"""A dataset folder: ``dataset.json`` says what it is, ``shards.jsonl`` what of it is finished, ``shards/`` holds it.

A folder is complete or says what is missing. While it is being written ``dataset.json`` says ``"complete": false``; at
the end it carries totals, pixel mean and std, the manifest's sha256, and a digest of itself.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders import manifest
from ident3d.loaders.files import sha256, sha256_of_file, write_json
from ident3d.loaders.manifest import Entry
from ident3d.loaders.shards import MEND

FILE = "dataset.json"
SHARDS = "shards"
FORMAT = "ident3d-dataset"
FORMAT_VERSION = 1
PARTS = (
    FILE,
    manifest.FILE,
    "provenance.json",
    "README.md",
    "sample.png",
    "latents.npy",
    "packed.json",
    "images.u8",
)  # all files beside the shards


@dataclass(frozen=True)
class Description:
    """``dataset.json``. `settings` holds everything that pixels depend on; mean and std are per channel, in 0 … 1."""

    settings: dict[str, Any]
    n: int
    shard_size: int
    complete: bool = False
    bytes: int | None = None
    pixel_mean: tuple[float, ...] | None = None
    pixel_std: tuple[float, ...] | None = None
    shards_sha256: str | None = None

    @property
    def size(self) -> int:
        return int(self.settings["size"])

    @property
    def scene(self) -> str:
        return str(self.settings["world"]["scene"])

    def as_dict(self) -> dict[str, object]:
        content: dict[str, object] = {"format": FORMAT, "format_version": FORMAT_VERSION} | asdict(self)
        return content | {"digest": digest(content)}


@dataclass(frozen=True)
class Folder:
    """An opened dataset folder."""

    path: Path
    description: Description
    entries: tuple[Entry, ...]

    def shard_path(self, entry: Entry) -> Path:
        return self.path / SHARDS / entry.name

    @property
    def finished(self) -> int:
        return sum(entry.count for entry in self.entries)


@dataclass(frozen=True)
class Job:
    """One shard to make: images first … first+count-1 under this name, the first ones from `reuse` if it is there."""

    name: str
    first: int
    count: int
    reuse: Entry | None = None


def digest(content: dict[str, object]) -> str:
    """sha256 of the canonical JSON."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def is_dataset(path: Path) -> bool:
    return (path / FILE).is_file()


def read_description(path: Path) -> Description:
    """Read ``dataset.json``, checking its format, its digest and what it says."""
    if not path.is_dir():
        raise UserError(f"There is no folder {path}.")
    if not is_dataset(path):
        raise UserError(f"{path} is not a dataset folder: it has no {FILE}.")
    try:
        content = json.loads((path / FILE).read_text(encoding="utf-8"))
        kind, version, found = content.pop("format"), content.pop("format_version"), content.pop("digest")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f"{path / FILE} cannot be read: {error!r}.") from None
    if kind != FORMAT:
        raise UserError(f"{path / FILE} does not describe an ident3d dataset.")
    if version != FORMAT_VERSION:
        raise UserError(f"{path} has dataset format {version}; this ident3d reads format {FORMAT_VERSION}.")
    if found != digest({"format": kind, "format_version": version} | content):
        raise UserError(f"{path / FILE} was changed after it was written: its digest does not match.")
    try:
        for name in ("pixel_mean", "pixel_std"):
            content[name] = content[name] and tuple(content[name])
        return Description(**content)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path / FILE} lacks or adds something: {error}.") from None


def write_description(path: Path, description: Description) -> None:
    write_json(path / FILE, description.as_dict())


def open_folder(path: Path | str) -> Folder:
    """Open a dataset folder, checking format, the manifest's digest, and that every shard is there in its full size."""
    path = Path(path)
    description = read_description(path)
    entries = manifest.read_entries(path)
    if description.complete:
        if sha256_of_file(path / manifest.FILE) != description.shards_sha256:
            raise UserError(f"{path / manifest.FILE} was changed after it was written: its digest does not match.")
        if list(missing_ranges(description.n, entries)):
            raise UserError(f"{path} says that it is complete, but its manifest lacks images.")
    folder = Folder(path, description, tuple(entries))
    for entry in entries:
        shard = folder.shard_path(entry)
        size = shard.stat().st_size if shard.is_file() else None
        if size != entry.bytes:
            what = "is missing" if size is None else f"has {size} bytes instead of {entry.bytes}"
            raise UserError(f"The shard {shard} {what}; {MEND}")
    return folder


def missing_ranges(n: int, entries: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    """The ranges [first, stop) of 0 … n-1 that no entry covers; overlapping entries are an error."""
    position = 0
    for entry in entries:
        if entry.first < position:
            raise UserError(f"The manifest lists image {entry.first} twice.")
        if entry.first > position:
            yield position, entry.first
        position = entry.stop
    if position < n:
        yield position, n


def plan(description: Description, entries: Sequence[Entry]) -> list[Job]:
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


def finish(path: Path, description: Description) -> Description:
    """Close a folder all of whose shards are there: sorted manifest, totals, pixel mean and std, digest."""
    entries = manifest.read_entries(path)
    shards_sha256 = manifest.write_entries(path, entries)
    pixels = description.n * description.size**2
    sums = [sum(entry.pixel_sum[c] for entry in entries) for c in range(3)]
    squares = [sum(entry.pixel_sum_squares[c] for entry in entries) for c in range(3)]
    description = replace(
        description,
        complete=True,
        bytes=sum(entry.bytes for entry in entries),
        pixel_mean=tuple(s / pixels / 255 for s in sums),
        pixel_std=tuple(sqrt(pixels * q - s * s) / pixels / 255 for s, q in zip(sums, squares, strict=True)),
        shards_sha256=shards_sha256,
    )
    write_description(path, description)
    return description


def differences(ours: dict[str, Any], theirs: dict[str, Any], above: str = "") -> list[str]:
    """The settings in which two datasets differ, as "size: 224 there, 64 asked for"."""
    found = []
    for name in sorted({*ours, *theirs}):
        a, b = ours.get(name), theirs.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{above}{name}.")
        elif a != b:
            found.append(f"{above}{name}: {a} there, {b} asked for")
    return found


def begin(
    path: Path, settings: dict[str, Any], n: int, shard_size: int | None, *, cleared: bool = False
) -> Description:
    """Create the folder, continue it, or grow it; refuse a folder of something else, naming the difference.

    `cleared` says that our own dataset was just deleted from it: what else lies there was accepted before.
    """
    if not is_dataset(path):
        if not cleared and path.exists() and (not path.is_dir() or any(p.name != ".lock" for p in path.iterdir())):
            raise UserError(f"{path} exists and is not a dataset folder; choose another --out.")
        description = Description(settings, n, shard_size or default_shard_size(n))
    else:
        old = read_description(path)
        differ = differences(old.settings, settings)
        if shard_size not in (None, old.shard_size):
            differ.append(f"shard_size: {old.shard_size} there, {shard_size} asked for")
        if differ:
            raise UserError(f"{path} holds another dataset ({'; '.join(differ)}); choose another --out, or --fresh.")
        if n < old.n:
            raise UserError(f"{path} holds {old.n} images already; n can grow, not shrink to {n}.")
        if old.complete and n == old.n:
            return old
        description = Description(settings, n, old.shard_size)
    (path / SHARDS).mkdir(parents=True, exist_ok=True)
    write_description(path, description)
    return description


def default_shard_size(n: int) -> int:
    """256 images (about 7 MB); smaller for small datasets, so that several workers share them."""
    return min(256, max(8, -(-n // 8)))


def remove_dataset(path: Path) -> int:
    """Delete the files that the folder's manifest lists and those beside it that we wrote; returns how many."""
    listed = [path / SHARDS / entry.name for entry in manifest.readable_entries(path)]
    files = [file for file in [*listed, *(path / part for part in PARTS)] if file.is_file()]
    for file in files:
        file.unlink()
    return len(files)
