"""A dataset folder: ``dataset.json`` describes it, ``shards.jsonl`` lists the finished shards, ``shards/`` holds them.

A folder is complete or says what is missing. While it is being written, ``dataset.json`` says ``"complete": false``. At
the end it gets totals, pixel mean and std, the manifest's sha256, and a digest of itself.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.latents.worlds import read_world
from ident3d.loaders.format import manifest
from ident3d.loaders.format.files import read_json, sha256, write_json
from ident3d.loaders.format.inside import NotPlain, check_plain, names_in, plain_sizes, read_plain
from ident3d.loaders.format.latents_source import check_source
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import CHANNELS, MEND, Shard, as_user_error, read_shard
from ident3d.loaders.stores.cache import fetch, mirror, origin
from ident3d.loaders.stores.store import Store, store_or_folder

DATASET_FILE = "dataset.json"
SHARDS = "shards"
DATASET_FORMAT = "ident3d-dataset"
DATASET_FORMAT_VERSION = 1
# All files that lie next to the folder `shards`, in the order in which they are removed and uploaded. The description
# comes last: it says that the rest is there, and as long as a folder has it, a run can continue the folder.
BESIDE = ("provenance.json", "README.md", "sample.png", "latents.npy", "all_latents.npy", "packed.json", "images.u8")
PARTS = (*BESIDE, manifest.MANIFEST_FILE, DATASET_FILE)

# The settings that every dataset records, and what kind of thing each is. Imported datasets have no quality.
SETTINGS: dict[str, type | tuple[type, ...]] = {
    "world": dict,
    "source": dict,
    "size": int,
    "quality": (dict, type(None)),
    "material": str,
    "device": str,
    "versions": dict,
}
LARGEST = 8192  # pixels


class NotOurs(UserError):
    """A ``dataset.json`` that is as it was written and that this ident3d cannot use, as that of a later version."""


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
    all_latents: str | None = None  # sha256 of the table of all latents, if there is one

    @property
    def size(self) -> int:
        return int(self.settings["size"])

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for coloured ones, which need not say so."""
        return self.settings.get("channels", 3)  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of each image."""
        return self.size, self.size, self.channels

    @property
    def scene(self) -> str | None:
        """The name of the scene; None for images of declared factors."""
        return self.settings["world"].get("scene")  # type: ignore[no-any-return]

    def as_dict(self) -> dict[str, object]:
        content: dict[str, object] = {"format": DATASET_FORMAT, "format_version": DATASET_FORMAT_VERSION} | asdict(self)
        return content | {"digest": digest(content)}


@dataclass(frozen=True)
class Folder:
    """An opened dataset folder. For a dataset in a store, `path` holds copies of its small files."""

    path: Path
    description: Description
    entries: tuple[ShardEntry, ...]
    store: Store | None = None

    @property
    def address(self) -> Path | Store:
        """Its name in messages: the store's address or the path."""
        return self.store or self.path

    def shard_name(self, entry: ShardEntry) -> str:
        """Return a shard's name for messages."""
        return f"{self.address}/{SHARDS}/{entry.name}"

    def shard_path(self, entry: ShardEntry) -> Path:
        """Return the path of the shard's file; a store's shard is downloaded first, unless it is in the cache."""
        if self.store:
            return fetch(self.store, f"{SHARDS}/{entry.name}", entry.sha256)
        return self.path / SHARDS / entry.name

    @property
    def finished(self) -> int:
        return sum(entry.count for entry in self.entries)


def shard_size(path: Path, entry: ShardEntry) -> int | None:
    """Return the size of the shard's file in the folder; None if it is missing or no plain file."""
    return plain_sizes(path, SHARDS, [entry.name])[entry.name]


def digest(content: dict[str, object]) -> str:
    """Return the sha256 of the canonical JSON."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def digest_mismatch(path: Path) -> str:
    return f"{path} was changed after it was written: its digest does not match; `ident3d verify --repair` rebuilds it."


def is_dataset(path: Path | Store) -> bool:
    return path.get(DATASET_FILE) is not None if isinstance(path, Store) else (path / DATASET_FILE).is_file()


def read_description(path: Path) -> Description:
    """Read ``dataset.json``, checking its format, its digest and every field."""
    if not path.is_dir():
        raise UserError(f"There is no folder {path}; check the path, or make a dataset there with `ident3d render`.")
    if not is_dataset(path):
        # A FIFO or a device of that name is said to be one.
        check_plain(path, DATASET_FILE)
        if not names_in(path, SHARDS):
            raise UserError(f"{path} is not a dataset folder: it has no {DATASET_FILE}.")
        raise UserError(f"{path} has lost its {DATASET_FILE}; `ident3d verify --repair` rebuilds it from the shards.")
    # What is wrong is said in this order: no JSON, another format, another version, changed, and only then its fields.
    try:
        content = read_json(path / DATASET_FILE)
        kind, version, found = content.pop("format"), content.pop("format_version"), content.pop("digest")
    except NotPlain:
        raise
    except (ValueError, KeyError) as error:
        raise UserError(f"{path / DATASET_FILE} cannot be read: {error!r}.") from None
    # The version is named before the digest, because another version may digest other fields.
    sound = found == digest({"format": kind, "format_version": version} | content)
    wrong = NotOurs if sound else UserError
    if kind != DATASET_FORMAT:
        raise wrong(f"{path / DATASET_FILE} does not describe an ident3d dataset.")
    if version != DATASET_FORMAT_VERSION:
        raise wrong(f"{path} has dataset format {version}; this ident3d reads format {DATASET_FORMAT_VERSION}.")
    if not sound:
        raise UserError(digest_mismatch(path / DATASET_FILE))
    try:
        return checked(content)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotOurs(f"{path / DATASET_FILE} does not say what a dataset must: {error}.") from None


def checked(content: dict[str, Any]) -> Description:
    """Return the description with these fields; raise an error that names the first one of a wrong type or value."""
    for name in ("pixel_mean", "pixel_std"):
        values = content[name]
        content[name] = None if values is None else tuple(map(float, values))
    description = Description(**content)
    for name in ("n", "shard_size"):
        number = getattr(description, name)
        if type(number) is not int or number < (1 if name == "shard_size" else 0):
            raise ValueError(f"{name} is {number!r}")
    if not isinstance(description.complete, bool):
        raise ValueError(f"complete is {description.complete!r}")
    settings = description.settings
    for name, kinds in SETTINGS.items():
        if not isinstance(settings[name], kinds):
            raise ValueError(f"{name} is {settings[name]!r}")
    if not 1 <= settings["size"] <= LARGEST:
        raise ValueError(f"size is {settings['size']}")
    if type(description.channels) is not int or description.channels not in CHANNELS:
        raise ValueError(f"channels is {description.channels!r}")
    read_world(settings["world"])
    check_source(settings["source"])
    # Readers normalise with them. A folder that is being written has none.
    for name in ("pixel_mean", "pixel_std"):
        values = getattr(description, name) or ()
        if description.complete and not (len(values) == description.channels and all(0 <= v <= 1 for v in values)):
            raise ValueError(f"{name} is {values!r}")
    return description


def write_description(path: Path, description: Description) -> None:
    write_json(path / DATASET_FILE, description.as_dict())


def open_folder(path: Path | str | Folder) -> Folder:
    """Open a dataset folder, checking format, the manifest's digest, and that every shard is there in its full size.

    The address of a store (s3://…) opens the dataset there, through our own cache folder. A folder that is open already
    is returned as it is: nothing is read or checked again.
    """
    if isinstance(path, Folder):
        return path
    # A store's small files are brought into a folder of our cache; from here on there is only one way to read them.
    path = local_copy(path)
    description = read_description(path)
    # At a million shards, each reading of the manifest takes six CPU-seconds: its digest comes from the same one.
    entries, manifest_sha256 = manifest.read_manifest(path)
    if description.complete:
        if manifest_sha256 != description.shards_sha256:
            raise UserError(digest_mismatch(path / manifest.MANIFEST_FILE))
        if list(missing_ranges(description.n, entries)):
            raise UserError(f"{path} says that it is complete, but its manifest lacks images.")
    folder = Folder(path, description, tuple(entries), origin(path))
    # Sizes, not hashes: opening must not read all the data. `verify` does, and so does every download.
    names = (entry.name for entry in entries)
    sizes = folder.store.sizes(SHARDS) if folder.store else plain_sizes(path, SHARDS, names)
    for entry in entries:
        size = sizes.get(entry.name)
        if size is None and not folder.store:
            check_plain(path, f"{SHARDS}/{entry.name}")
        if size != entry.bytes:
            what = "is missing" if size is None else f"has {size} bytes instead of {entry.bytes}"
            raise UserError(f"The shard {folder.shard_name(entry)} {what}; {MEND}")
    return folder


def checked_shards(folder: Folder) -> Iterator[Shard]:
    """Read every shard in order. A shard whose hash or image size is not the recorded one is an error."""
    for entry in folder.entries:
        path = folder.shard_path(entry)
        with as_user_error(path):
            data = read_plain(path.parent, path.name, entry.bytes)
        if sha256(data) != entry.sha256:
            raise UserError(f"The shard {path} does not match its hash; {MEND}")
        shard = read_shard(path, data)
        if shard.images.shape != (entry.count, *folder.description.shape):
            raise UserError(f"The shard {path} holds images of another size; {MEND}")
        yield shard


def local_copy(path: Path | str) -> Path:
    """Return a folder's path as it is; for a dataset in a store, the folder in our cache that stands for it."""
    where = store_or_folder(path)
    return mirror(where, DATASET_FILE) if isinstance(where, Store) else where


def missing_ranges(n: int, entries: Sequence[ShardEntry]) -> Iterator[tuple[int, int]]:
    """Yield the ranges [first, stop) of 0 … n-1 that no entry covers; an overlap, or an image beyond n, is an error."""
    # Entries are in order of their images, so that one pass sees every gap and every overlap.
    position = 0
    for entry in entries:
        if entry.first < position:
            raise UserError(f"The manifest lists image {entry.first} twice.")
        if entry.first > position:
            yield position, entry.first
        position = entry.stop
    if position > n:
        raise UserError(f"The manifest lists images up to number {position - 1}, but there are only {n}.")
    if position < n:
        yield position, n


def differences(ours: dict[str, Any], theirs: dict[str, Any], above: str = "") -> list[str]:
    """Return the settings in which two datasets differ, as "size: 224 there, 64 asked for"."""
    found = []
    for name in sorted({*ours, *theirs}):
        a, b = ours.get(name), theirs.get(name)
        # Nested settings are compared by their fields: a whole world would fill the message.
        if isinstance(a, dict) and isinstance(b, dict):
            # Two presets differ in all that their names stand for.
            if name == "quality" and a.get("name") != b.get("name"):
                a, b = {"name": a.get("name")}, {"name": b.get("name")}
            found += differences(a, b, f"{above}{name}.")
        elif a != b:
            found.append(f"{above}{name}: {a} there, {b} asked for")
    return found
