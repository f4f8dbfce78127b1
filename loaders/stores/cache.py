"""Datasets in object stores, read through copies in our own cache folder, which is held to a bound.

A shard's copy is named after its hash, and is used only while it has that hash. The small files of a dataset lie in a
folder of their own, which is like a dataset folder without shards, and is named after the address and the content of
``dataset.json``: two states of a dataset never share one.

The copies that were used least recently are removed first. A copy that is open can still be read to its end, and one
that was asked for a moment ago is never removed.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.format import latents_table, manifest
from ident3d.loaders.format.description import DATASET_FILE
from ident3d.loaders.format.files import sha256, sha256_of_file, write_atomically
from ident3d.loaders.format.shard import MEND
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.machine import cache_folder

# One object per finished shard, while the dataset is not complete: nothing is appended in a store.
ENTRIES = "entries"
ORIGIN = ".origin"
BOUND_VARIABLE = "IDENT3D_CACHE_GB"
DEFAULT_GB = 100.0
# The time from asking for a copy to opening it.
MOMENT_SECONDS = 60.0
# When such a share of the bound has been added, the copies are counted again.
RECOUNT_SHARE = 1 / 50
# Copies whose hash this process has found to be right.
_checked: set[Path] = set()
# Folder → bytes that this process has put there since it last counted.
_added: dict[Path, int] = {}


def fetch(store: Store, name: str, digest: str) -> Path:
    """Return the local copy of an object with this sha256; download it unless it is there."""
    copies = cache_folder() / "objects"
    path = copies / digest / name.rpartition("/")[2]
    # The time of use decides which copies are removed. In a cache of another user, copies may be read only.
    with suppress(OSError):
        os.utime(path)
    # A copy is hashed once in a process. To hash it at every use would cost more than the download saves.
    if path.is_file() and (path in _checked or sha256_of_file(path) == digest):
        _checked.add(path)
        return path
    data = store.get(name)
    if data is None:
        raise UserError(f"{store}/{name} is missing; {MEND}")
    if sha256(data) != digest:
        raise UserError(f"{store}/{name} does not match its sha256; {MEND}")
    keep(path, data)
    hold_to_bound(copies, len(data))
    _checked.add(path)
    return path


def keep(path: Path, data: bytes) -> None:
    """Write a file of the cache, unless it is there."""
    try:
        if path.is_file() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        raise UserError(
            f"The cache folder {path.parent} cannot be written ({error.strerror}); XDG_CACHE_HOME names another."
        ) from None


def bound() -> float:
    """Return how many bytes the copies may take, by the user's environment variable."""
    given = os.environ.get(BOUND_VARIABLE) or DEFAULT_GB
    try:
        gigabytes = float(given)
    except ValueError:
        gigabytes = -1.0
    if not gigabytes >= 0:
        raise UserError(f"{BOUND_VARIABLE} takes a number of gigabytes, as in 200, not {given!r}.")
    return gigabytes * 1e9


def hold_to_bound(folder: Path, added: int) -> None:
    """Remove the least recently used copies beyond the bound, after so many bytes were added.

    Listing the folder may take seconds, so it is not done for every copy: only once a fiftieth of the bound is new.
    """
    limit = bound()
    if folder in _added and _added[folder] + added < limit * RECOUNT_SHARE:
        _added[folder] += added
        return
    _added[folder] = 0
    copies = [found for above in folder.iterdir() for found in copies_in(above)]
    total = sum(size for _, size, _ in copies)
    for _, size, copy in sorted(copies):
        if total <= limit:
            return
        # Other processes use the cache too: one may have removed this copy, or asked for it since it was counted.
        with suppress(OSError):
            if time.time() - copy.stat().st_mtime < MOMENT_SECONDS:
                continue
            copy.unlink()
            copy.parent.rmdir()
        total -= size


def copies_in(above: Path) -> list[tuple[float, int, Path]]:
    """Return when each copy in the folder was last asked for, its size and its path; none that is gone by now."""
    found = []
    with suppress(OSError):
        for copy in above.iterdir():
            known = copy.stat()
            found.append((known.st_mtime, known.st_size, copy))
    return found


def mirror(store: Store) -> Path:
    """Bring the cache's copy of the dataset's small files up to date, and return it."""
    description = store.get(DATASET_FILE)
    if description is None:
        raise UserError(f"{store} is not a dataset: there is no {DATASET_FILE} in it.")
    folder = cache_folder() / "stores" / sha256(f"{store}\n".encode() + description) / store.name
    keep(folder / DATASET_FILE, description)
    hashes = recorded_hashes(description)
    if not matches(folder / manifest.MANIFEST_FILE, hashes.get("shards_sha256")):
        keep(folder / manifest.MANIFEST_FILE, manifest_of(store, complete=hashes.get("complete") is True))
    digest = hashes.get("all_latents")
    if digest and not matches(folder / latents_table.TABLE_FILE, digest):
        table = store.get(latents_table.TABLE_FILE)
        if table is not None:
            keep(folder / latents_table.TABLE_FILE, table)
    keep(folder / ORIGIN, store.url.encode())
    return folder


def recorded_hashes(description: bytes) -> dict[str, Any]:
    """Return what ``dataset.json`` says, unchecked, and nothing if it cannot be read: its reader raises the error."""
    with suppress(ValueError, RecursionError):
        content = json.loads(description)
        if isinstance(content, dict):
            return content
    return {}


def matches(path: Path, digest: object) -> bool:
    return path.is_file() and sha256_of_file(path) == digest


def manifest_of(store: Store, *, complete: bool) -> bytes:
    """Return the lines of ``shards.jsonl`` and, until the dataset is complete, those of the shards finished since."""
    # Nothing can be appended to an object, and rewriting the manifest after each shard would take time ~ n².
    lines = store.get(manifest.MANIFEST_FILE) or b""
    if complete:
        return lines
    return lines + b"".join(store.get_all(f"{ENTRIES}/{name}" for name in sorted(store.sizes(ENTRIES))))


def origin(folder: Path) -> Store | None:
    """Return where the shards of a folder lie that `mirror` made; None for any other folder.

    A folder elsewhere could hold a file of this name too: what it names would be read with the user's credentials.
    """
    path = folder / ORIGIN
    if not (path.is_file() and folder.resolve().is_relative_to((cache_folder() / "stores").resolve())):
        return None
    where = store_or_folder(path.read_text(encoding="utf-8"))
    return where if isinstance(where, Store) else None
