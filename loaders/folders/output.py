"""Where a run puts the dataset that it makes: a folder, or an object store through a scratch folder."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from ident3d.errors import UserError
from ident3d.loaders.folders import store_transfer as publishing
from ident3d.loaders.folders.folder import SHARDS, Description
from ident3d.loaders.folders.lifecycle import Job, finish, remove_dataset
from ident3d.loaders.folders.provenance import PROVENANCE_FILE, record_run
from ident3d.loaders.format import manifest
from ident3d.loaders.format.files import FULL
from ident3d.loaders.format.latents_source import recorded_latents
from ident3d.loaders.format.latents_table import joined
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.stores.lease import Lease, lease
from ident3d.loaders.stores.store import Store
from ident3d.loaders.stores.store_lease import lease_on_store
from ident3d.machine import free_bytes

WriteCard = Callable[[Path, Description], None]


class FolderOutput:
    """A dataset folder, held for writing. Nothing is entered in its manifest once the lease is lost."""

    def __init__(self, path: Path, held: Lease) -> None:
        self.path, self.held = path, held

    def clear(self) -> None:
        """Delete the dataset that is there."""
        remove_dataset(self.path)

    def free_bytes(self) -> int | None:
        """The room that is left, where that is known."""
        return free_bytes(self.path)

    def stored(self) -> Mapping[str, int] | None:
        """The sizes of the shards, where they are not files of the folder."""
        return None

    def at_hand(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Each of the jobs in turn, while what there may be of its shard is a file of the folder."""
        yield from jobs

    def begin(self) -> None:
        """What the folder says of the dataset is settled, and shards may follow."""

    def enter(self, entry: ShardEntry) -> None:
        """Enter a finished shard in the manifest."""
        self.held.check()
        manifest.append_entry(self.path, entry)

    def record(self, started: datetime, **facts: object) -> None:
        """Record the run, however it ends, unless another has taken over: the folder is the other's to write."""
        with suppress(UserError):  # of a run that fails, its own reason is what matters
            self.held.check()
            record_run(self.path, started, **facts)

    def finish(self, description: Description, write_card: WriteCard) -> None:
        """Close the dataset, all of whose shards are there."""
        self.held.check()
        finish(self.path, description, write_card)


class StoreOutput(FolderOutput):
    """A dataset in a store; the folder is scratch and holds the small files beside the shards."""

    def __init__(self, store: Store, path: Path, held: Lease) -> None:
        super().__init__(path, held)
        self.store = store

    def clear(self) -> None:
        publishing.remove_stored(self.store, self.path)
        super().clear()

    def free_bytes(self) -> None:
        return None

    def stored(self) -> dict[str, int]:
        return self.store.sizes(SHARDS)

    def at_hand(self, jobs: Iterable[Job]) -> Iterator[Job]:
        there = self.stored()
        for job in jobs:
            if job.name in there and publishing.take_shard(self.store, job.name, self.path):
                yield job
                (self.path / SHARDS / job.name).unlink()  # there may be more of them than this disk holds

    def begin(self) -> None:
        self.held.check()
        publishing.push_state(self.store, self.path)

    def enter(self, entry: ShardEntry) -> None:
        self.held.check()
        publishing.put_entry(self.store, entry)
        manifest.append_entry(self.path, entry)

    def record(self, started: datetime, **facts: object) -> None:
        record_run(self.path, started, **facts)
        with suppress(OSError, UserError):
            self.held.check()
            publishing.push(self.store, self.path, (PROVENANCE_FILE,))

    def finish(self, description: Description, write_card: WriteCard) -> None:
        publishing.take_shard(self.store, manifest.read_entries(self.path)[0].name, self.path)  # for the card
        drawn = recorded_latents(self.path, description.settings, 0, description.n)
        finish(self.path, description, write_card, drawn and joined(*drawn))
        self.held.check()
        publishing.push_finished(self.store, self.path)


@contextmanager
def writing(place: Path | Store) -> Iterator[FolderOutput]:
    """Hold the place for writing; a full disk or a store's refusal, wherever it is met, ends in one sentence."""
    try:
        if isinstance(place, Store):
            with in_store(place) as output:
                yield output
        else:
            with made_folder(place), lease(place) as held:
                yield FolderOutput(place, held)
    except OSError as error:
        if error.errno in FULL:
            raise UserError(f"The disk of {place} is full; free some space and run the same command again.") from error
        raise UserError(f"{error.filename or place} cannot be written: {error.strerror}.") from error


@contextmanager
def in_store(store: Store) -> Iterator[StoreOutput]:
    """Hold the store's dataset."""
    with lease_on_store(store) as held:
        publishing.refuse_strangers(store)
        with publishing.looking(store) as path:
            yield StoreOutput(store, path, held)


@contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """Make the folder and those above it; what was made for nothing, and is empty at the end, is removed again."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        yield
    finally:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
