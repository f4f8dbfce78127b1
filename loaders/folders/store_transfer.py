"""Transfers between an object store, which has the shards, and a scratch folder, which has the small files.

The order of writes is that of a folder: a shard is put before its entry, and ``dataset.json`` says that the dataset is
complete only after all the rest is there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import BESIDE, PARTS, is_dataset
from ident3d.loaders.folders.lifecycle import Job, check_due
from ident3d.loaders.folders.provenance import PROVENANCE_FILE
from ident3d.loaders.format import manifest
from ident3d.loaders.format.aside import REMOVED
from ident3d.loaders.format.description import DATASET_FILE, SHARDS
from ident3d.loaders.format.files import TEMPORARY, write_atomically
from ident3d.loaders.format.latents_source import LATENTS_FILE
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.stores.cache import ENTRIES, fetch, manifest_of, recorded_hashes
from ident3d.loaders.stores.store import Store
from ident3d.loaders.stores.store_lease import LEASE_FOLDER


@contextmanager
def scratch(store: Store) -> Iterator[Path]:
    """Yield an empty folder. Error messages from inside it name the store's address instead of the folder."""
    with TemporaryDirectory() as above:
        folder = Path(above) / store.name
        (folder / SHARDS).mkdir(parents=True)
        try:
            yield folder
        except UserError as error:
            raise UserError(str(error).replace(str(folder), store.url)) from error


def pull(store: Store, folder: Path, beside: Iterable[str]) -> None:
    """Fetch the description, the manifest and the named files into the scratch folder."""
    for name in beside:
        data = store.get(name)
        if data is not None:
            write_atomically(folder / name, data)
    described = store.get(DATASET_FILE) or b""
    if described:
        write_atomically(folder / DATASET_FILE, described)
    lines = manifest_of(store, complete=recorded_hashes(described).get("complete") is True)
    if lines:
        write_atomically(folder / manifest.MANIFEST_FILE, lines)


@contextmanager
def working_copy(place: Path | Store, beside: Iterable[str] = (LATENTS_FILE, PROVENANCE_FILE)) -> Iterator[Path]:
    """Yield a folder with the dataset's small files as they are now: a scratch folder if the dataset is in a store."""
    if isinstance(place, Path):
        yield place
        return
    with scratch(place) as folder:
        pull(place, folder, beside)
        yield folder


@contextmanager
def scratch_for_job(store: Store, settings: Mapping[str, Any], job: Job) -> Iterator[Path]:
    """Yield a scratch folder in which a worker makes the job's shard, with all that the job may need.

    Then the finished shard is put into the store, whole, unless another run has changed the dataset meanwhile.
    """
    with scratch(store) as folder:
        take_description(store, folder)
        if settings["source"]["kind"] == "file":
            copyfile(fetch(store, LATENTS_FILE, settings["source"]["sha256"]), folder / LATENTS_FILE)
        if job.reuse:
            take_shard(store, job.reuse.name, folder)
        shard = folder / SHARDS / job.name
        # A run that died may have left the finished shard; the worker then adopts it, and nothing is uploaded twice.
        before = shard.read_bytes() if take_shard(store, job.name, folder) else None
        yield folder
        data = shard.read_bytes()
        # The description is fetched again: another run may have grown or replaced the dataset while this one rendered.
        take_description(store, folder)
        check_due(folder, settings, job)
        if data != before:
            store.put(f"{SHARDS}/{job.name}", data)


def refuse_strangers(store: Store) -> None:
    """Raise UserError if the store's folder holds anything but a dataset."""
    strangers = set(store.sizes("")) - set(PARTS) | store.folders() - {SHARDS, ENTRIES, LEASE_FOLDER}
    if any(not name.startswith((TEMPORARY, REMOVED)) for name in strangers) and not is_dataset(store):
        raise UserError(f"{store} exists and is not a dataset; choose another --out.")


def push_state(store: Store, folder: Path) -> None:
    """Put what a run starts from: the description, the latents to render, and the manifest in one piece."""
    push(store, folder, (DATASET_FILE, LATENTS_FILE, manifest.MANIFEST_FILE))
    remove_entries(store)


def push_finished(store: Store, folder: Path) -> None:
    """Put the small files of a complete dataset, the description last."""
    # The single entries go once the manifest that holds them all is there, never before.
    push(store, folder, (manifest.MANIFEST_FILE,))
    remove_entries(store)
    push(store, folder, (*BESIDE, DATASET_FILE))


def push(store: Store, folder: Path, names: Iterable[str]) -> None:
    for name in names:
        if (folder / name).is_file():
            store.put(name, (folder / name).read_bytes())


def put_entry(store: Store, entry: ShardEntry) -> None:
    """Enter a finished shard in the manifest."""
    store.put(entry_name(entry.name), entry.line().encode())


def entry_name(shard: str) -> str:
    return f"{ENTRIES}/{shard.removesuffix('.h5')}.json"


def remove_entries(store: Store) -> None:
    store.remove_all(f"{ENTRIES}/{name}" for name in store.sizes(ENTRIES))


def take_description(store: Store, folder: Path) -> None:
    """Fetch the current description into the scratch folder."""
    described = store.get(DATASET_FILE)
    if described is None:
        raise UserError(f"{store} is not a dataset: there is no {DATASET_FILE} in it.")
    write_atomically(folder / DATASET_FILE, described)


def take_shard(store: Store, name: str, folder: Path) -> bool:
    """Fetch one shard into the scratch folder, unchecked; return whether the store has it."""
    data = store.get(f"{SHARDS}/{name}")
    if data is not None:
        (folder / SHARDS / name).write_bytes(data)
    return data is not None


def remove_stored(store: Store, folder: Path) -> None:
    """Delete the shards that the manifest in the scratch folder lists and the small files, the description last."""
    # A killed removal must leave a dataset that the next one finds: the manifest and the description go last.
    store.remove_all(f"{SHARDS}/{entry.name}" for entry in manifest.readable_entries(folder))
    remove_entries(store)
    for name in PARTS:
        store.remove(name)


def push_repaired(store: Store, folder: Path, broken: Sequence[str], gone: Iterable[str]) -> None:
    """Put a dataset that `verify` repaired: without the broken shards, and without what is gone from the folder."""
    push(store, folder, (DATASET_FILE,))
    store.remove_all(map(entry_name, broken))
    push(store, folder, (manifest.MANIFEST_FILE,))
    remove_entries(store)
    store.remove_all(f"{SHARDS}/{name}" for name in broken)
    for name in gone:
        if name in PARTS and not (folder / name).exists():
            store.remove(name)
