"""A dataset folder: ``dataset.json`` describes it, ``shards.jsonl`` lists the finished shards, ``shards/`` holds them.

A folder is complete or says what is missing. It is opened once, here or in a store, for all readers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ident3d.errors import UserError
from ident3d.loaders.format import manifest
from ident3d.loaders.format.description import DATASET_FILE, SHARDS, Description, digest_mismatch, read_description
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.inside import check_plain, plain_sizes, read_plain
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import MEND, Shard, as_user_error, read_shard
from ident3d.loaders.stores.cache import fetch, mirror, origin
from ident3d.loaders.stores.store import Store, store_or_folder

# All files that lie next to the folder `shards`, in the order in which they are removed and uploaded. The description
# comes last: it says that the rest is there, and as long as a folder has it, a run can continue the folder.
BESIDE = ("provenance.json", "README.md", "sample.png", "latents.npy", "all_latents.npy", "packed.json", "images.u8")
PARTS = (*BESIDE, manifest.MANIFEST_FILE, DATASET_FILE)


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


def is_dataset(path: Path | Store) -> bool:
    return path.get(DATASET_FILE) is not None if isinstance(path, Store) else (path / DATASET_FILE).is_file()


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
    return (checked_shard(folder, entry) for entry in folder.entries)


def checked_shard(folder: Folder, entry: ShardEntry) -> Shard:
    """Read one shard. If its hash or image size is not the recorded one, that is an error."""
    path = folder.shard_path(entry)
    with as_user_error(path):
        data = read_plain(path.parent, path.name, entry.bytes)
    if sha256(data) != entry.sha256:
        raise UserError(f"The shard {path} does not match its hash; {MEND}")
    shard = read_shard(path, data)
    if shard.images.shape != (entry.count, *folder.description.shape):
        raise UserError(f"The shard {path} holds images of another size; {MEND}")
    return shard


def local_copy(path: Path | str) -> Path:
    """Return a folder's path as it is; for a dataset in a store, the folder in our cache that stands for it."""
    where = store_or_folder(path)
    return mirror(where) if isinstance(where, Store) else where


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
