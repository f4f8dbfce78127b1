"""Datasets in object stores, read through copies in our own cache folder.

A shard's copy is named after its hash, and is used only while it has that hash. The small files of a dataset lie in a
folder of their own, which is like a dataset folder without shards, and is named after the address and the content of
``dataset.json``: two states of a dataset never share one.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.format import latents_table, manifest
from ident3d.loaders.format.files import sha256, sha256_of_file, write_atomically
from ident3d.loaders.format.shard import MEND
from ident3d.loaders.stores import bounded
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.machine import cache_folder

ENTRIES = "entries"  # one object per finished shard, while the dataset is not complete: nothing is appended in a store
ORIGIN = ".origin"
_checked: set[Path] = set()  # copies whose hash this process has seen to be right


def fetch(store: Store, name: str, digest: str) -> Path:
    """The local copy of an object with this sha256; downloaded unless it is there."""
    copies = cache_folder() / "objects"
    path = copies / digest / name.rpartition("/")[2]
    bounded.used(path)
    if path.is_file() and (path in _checked or sha256_of_file(path) == digest):
        _checked.add(path)
        return path
    data = store.get(name)
    if data is None:
        raise UserError(f"{store}/{name} is missing; {MEND}")
    if sha256(data) != digest:
        raise UserError(f"{store}/{name} does not match its sha256; {MEND}")
    keep(path, data)
    bounded.add(copies, len(data))
    _checked.add(path)
    return path


def keep(path: Path, data: bytes) -> None:
    """Write a file of the cache, unless it is there."""
    with told_of_the_cache(path.parent):
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)


@contextmanager
def told_of_the_cache(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"The cache folder {folder} cannot be written ({error.strerror}); XDG_CACHE_HOME names another."
        ) from None


def mirror(store: Store, file: str) -> Path:
    """The cache's copy of the dataset's small files, brought up to date; `file` describes the dataset."""
    described = store.get(file)
    if described is None:
        raise UserError(f"{store} is not a dataset: there is no {file} in it.")
    folder = cache_folder() / "stores" / sha256(f"{store}\n".encode() + described) / store.name
    keep(folder / file, described)
    hashes = recorded_hashes(described)
    if not matches(folder / manifest.MANIFEST_FILE, hashes.get("shards_sha256")):
        keep(folder / manifest.MANIFEST_FILE, manifest_of(store, complete=hashes.get("complete") is True))
    digest = hashes.get("all_latents")
    if digest and not matches(folder / latents_table.TABLE_FILE, digest):
        table = store.get(latents_table.TABLE_FILE)
        if table is not None:
            keep(folder / latents_table.TABLE_FILE, table)
    keep(folder / ORIGIN, store.url.encode())
    return folder


def recorded_hashes(described: bytes) -> dict[str, Any]:
    """What ``dataset.json`` says, unchecked: nothing where it cannot be read, which its reader will tell."""
    with suppress(ValueError, RecursionError):
        content = json.loads(described)
        if isinstance(content, dict):
            return content
    return {}


def matches(path: Path, digest: object) -> bool:
    return path.is_file() and sha256_of_file(path) == digest


def manifest_of(store: Store, *, complete: bool) -> bytes:
    """The lines of ``shards.jsonl`` and, until the dataset is complete, those of the shards finished since."""
    lines = store.get(manifest.MANIFEST_FILE) or b""
    if complete:
        return lines
    return lines + b"".join(store.get_all(f"{ENTRIES}/{name}" for name in sorted(store.sizes(ENTRIES))))


def origin(folder: Path) -> Store | None:
    """Where the shards of a folder lie that `mirror` made; None for any other folder, whatever it says."""
    path = folder / ORIGIN
    if not (path.is_file() and folder.resolve().is_relative_to((cache_folder() / "stores").resolve())):
        return None
    where = store_or_folder(path.read_text(encoding="utf-8"))
    return where if isinstance(where, Store) else None
