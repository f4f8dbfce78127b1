"""Where a run writes its dataset: a folder, or an object store through a scratch folder."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from ident3d.errors import UserError
from ident3d.loaders.folders import store_transfer
from ident3d.loaders.folders.card import remake_lost
from ident3d.loaders.folders.judge import whole_shard
from ident3d.loaders.folders.lifecycle import Job, drop_missing_shards, finish, plan, remove_dataset
from ident3d.loaders.folders.provenance import BESIDE_NAMES, PROVENANCE_FILE, lost_beside, record_run
from ident3d.loaders.format import manifest
from ident3d.loaders.format.aside import Aside
from ident3d.loaders.format.description import SHARDS, Description
from ident3d.loaders.format.files import FULL, new_folder
from ident3d.loaders.format.inside import check_plain, plain_sizes, read_plain
from ident3d.loaders.format.latents_source import recorded_latents
from ident3d.loaders.format.latents_table import join_classes
from ident3d.loaders.format.manifest import ShardEntry, in_order
from ident3d.loaders.stores.lease import Lease, lease
from ident3d.loaders.stores.store import Store
from ident3d.loaders.stores.store_lease import lease_on_store
from ident3d.machine import free_bytes


class FolderOutput:
    """A dataset folder, held for writing. Nothing is entered in its manifest once the lease is lost."""

    def __init__(self, path: Path, held: Lease) -> None:
        self.path, self.held = path, held

    def clear(self) -> None:
        """Delete the dataset."""
        remove_dataset(self.path)

    def free_bytes(self) -> int | None:
        """Return the free bytes, None if they are not known."""
        return free_bytes(self.path)

    def set_aside_unused(self, entries: Sequence[ShardEntry]) -> Aside:
        """Move a manifest away of which no line is used, so that nothing is appended to lines that are wrong.

        Call it before the description says less than it did.
        """
        aside = Aside(self.path)
        # Its size says enough: to read it again would take seconds in a large dataset.
        if not entries and plain_sizes(self.path, "", [manifest.MANIFEST_FILE])[manifest.MANIFEST_FILE] != 0:
            aside.take(manifest.MANIFEST_FILE)
        return aside

    def resume(self, description: Description, entries: list[ShardEntry]) -> tuple[Description, list[ShardEntry]]:
        """Make the manifest agree with the shards that are there; return the description and the entries from then on.

        Missing shards leave the manifest. Whole shards that a killed run wrote, but did not enter, are entered.
        """
        sizes = self.sizes(entries)
        present = [entry for entry in entries if sizes.get(entry.name) == entry.bytes]
        # A shard that is a link may be sound. It is not made again unless the user has it taken out.
        for entry in entries:
            if sizes.get(entry.name) is None:
                check_plain(self.path, f"{SHARDS}/{entry.name}")
        description = drop_missing_shards(self.path, description, entries, present)
        if not description.complete:
            present = self.adopt_shards(description, present, plan(description, present))
        return description, present

    def sizes(self, entries: Iterable[ShardEntry]) -> dict[str, int | None]:
        """Return the size of each entry's shard."""
        return plain_sizes(self.path, SHARDS, [entry.name for entry in entries])

    def adopt_shards(
        self, description: Description, entries: list[ShardEntry], jobs: Iterable[Job]
    ) -> list[ShardEntry]:
        """Enter those of the jobs' shards that are there, whole; return all entries."""
        # A shard that is there costs a second to check and minutes to render.
        adopted = []
        for job in jobs:
            if entry := whole_shard(self.path, description.settings, job):
                manifest.append_entry(self.path, entry)
                adopted.append(entry)
        return in_order([*entries, *adopted]) if adopted else entries

    def enter(self, entry: ShardEntry) -> None:
        """Enter a finished shard in the manifest."""
        self.held.check()
        manifest.append_entry(self.path, entry)

    def record(self, started: datetime, *, ended: bool = True, **facts: object) -> None:
        """Record the run, when it begins and however it ends, unless another run has taken over the folder."""
        with suppress(UserError):  # if the run fails, the user must see the reason of that
            self.held.check()
            record_run(self.path, started, ended=ended, **facts)

    def finish(
        self, description: Description, entries: Sequence[ShardEntry], mesh_credits: Sequence[str] | None = None
    ) -> None:
        """Close the dataset, which has all its shards."""
        self.held.check()
        finish(self.path, description, entries, mesh_credits=mesh_credits)

    def lost_beside(self) -> list[str]:
        """Return which of the card's files and the provenance are lost."""
        return lost_beside(self.path)

    def remake_lost(
        self, description: Description, entries: Sequence[ShardEntry], mesh_credits: Sequence[str], lost: Sequence[str]
    ) -> None:
        """Make them anew."""
        self.held.check()
        remake_lost(self.path, description, entries, mesh_credits, lost)


class StoreOutput(FolderOutput):
    """A dataset in a store. The folder is scratch and holds the small files; the shards are in the store."""

    def __init__(self, store: Store, path: Path, held: Lease) -> None:
        super().__init__(path, held)
        self.store = store

    def clear(self) -> None:
        store_transfer.remove_stored(self.store, self.path)
        super().clear()

    def free_bytes(self) -> None:
        return None

    def set_aside_unused(self, entries: Sequence[ShardEntry]) -> Aside:
        aside = super().set_aside_unused(entries)
        for name in aside.moved:
            self.store.put(f"{aside.name}/{name}", read_plain(self.path, f"{aside.name}/{name}"))
            self.store.remove(name)
        return aside

    def sizes(self, entries: Iterable[ShardEntry]) -> dict[str, int | None]:
        return dict(self.store.sizes(SHARDS))

    def adopt_shards(
        self, description: Description, entries: list[ShardEntry], jobs: Iterable[Job]
    ) -> list[ShardEntry]:
        entries = super().adopt_shards(description, entries, self.each_in_scratch(jobs))
        self.held.check()
        store_transfer.push_state(self.store, self.path)
        return entries

    def each_in_scratch(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield each job while its shard is in the scratch folder: this disk may not have room for all of them."""
        # One listing tells which shards there are. Asking the store for each of a million jobs would take hours.
        there = self.store.sizes(SHARDS)
        for job in jobs:
            if job.name in there and store_transfer.take_shard(self.store, job.name, self.path):
                yield job
                (self.path / SHARDS / job.name).unlink()

    def enter(self, entry: ShardEntry) -> None:
        self.held.check()
        store_transfer.put_entry(self.store, entry)
        manifest.append_entry(self.path, entry)

    def record(self, started: datetime, *, ended: bool = True, **facts: object) -> None:
        record_run(self.path, started, ended=ended, **facts)
        with suppress(OSError, UserError):
            self.held.check()
            store_transfer.push(self.store, self.path, (PROVENANCE_FILE,))

    def finish(
        self, description: Description, entries: Sequence[ShardEntry], mesh_credits: Sequence[str] | None = None
    ) -> None:
        store_transfer.take_shard(self.store, entries[0].name, self.path)  # for the card's picture
        latents = recorded_latents(self.path, description.settings, 0, description.n)
        finish(self.path, description, entries, mesh_credits=mesh_credits, table=latents and join_classes(*latents[:2]))
        self.held.check()
        store_transfer.push_finished(self.store, self.path)

    def lost_beside(self) -> list[str]:
        sizes = self.store.sizes("")
        return [name for name in BESIDE_NAMES if not sizes.get(name)]

    def remake_lost(
        self, description: Description, entries: Sequence[ShardEntry], mesh_credits: Sequence[str], lost: Sequence[str]
    ) -> None:
        store_transfer.take_shard(self.store, entries[0].name, self.path)  # for the card's picture
        super().remake_lost(description, entries, mesh_credits, lost)
        store_transfer.push(self.store, self.path, {*lost, PROVENANCE_FILE})


@contextmanager
def hold_output(place: Path | Store) -> Iterator[FolderOutput]:
    """Hold the folder or store for writing. A full disk, or a store that refuses, becomes a UserError."""
    try:
        if isinstance(place, Store):
            with lease_on_store(place) as held:
                store_transfer.refuse_strangers(place)
                with store_transfer.working_copy(place) as path:
                    yield StoreOutput(place, path, held)
        else:
            with new_folder(place), lease(place) as held:
                yield FolderOutput(place, held)
    except OSError as error:
        if error.errno in FULL:
            raise UserError(f"The disk of {place} is full; free some space and run the same command again.") from error
        raise UserError(f"{error.filename or place} cannot be written: {error.strerror or error}.") from error
