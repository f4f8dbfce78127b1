"""`Loader`: a DataLoader over whole batches, whose position can be saved and restored."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from ident3d.errors import UserError
from ident3d.loaders.batches.epochs import EpochSampler, Rest
from ident3d.loaders.batches.shared_slots import Dataset, Slots, image_dataset_of, slot_shape

# What a position records as a digest: it cannot be shown in a message.
DIGESTS = ("images", "pairs")


class Batches:
    """What a `Loader` has for a dataset: its samples, and whole batches of the numbers that an `EpochSampler` gives.

    In a worker of a `Loader` with slots, pixels go into a slot, and the batch is the slot's number and the latents.
    """

    def __init__(self, dataset: Dataset, position: EpochSampler, settings: dict[str, Any]) -> None:
        self.dataset, self.position, self.settings = dataset, position, settings
        self.slots: Slots | None = None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> Any:
        return self.dataset[number]

    def __getitems__(self, numbers: list[int]) -> Any:
        """Return a whole batch, which the collate function leaves as it is."""
        if not self.slots:
            return self.dataset.batch(numbers)
        slot = self.slots.take()
        try:
            pixels = self.slots.memory[slot][: self.dataset.members * len(numbers)]
            return slot, self.dataset.fill(numbers, pixels.numpy())
        except BaseException:
            self.slots.free(slot)
            raise


class Loader(DataLoader[Any]):
    """A DataLoader over whole batches, whose position can be saved and restored.

    Each iteration begins its epoch afresh; the first one after `load_state_dict` goes on where the state was saved.
    Once the consumer has an epoch's last batch, the next epoch is the loader's. One that is left before is begun again.
    `state_dict` counts the batches that the consumer got, not those that workers have prepared beyond them.

    It has the attributes of any DataLoader (a sampler, a batch size), from which libraries make loaders of their own,
    such as one for each rank. Slots serve a `Loader` alone: others get a worker's batches as torch sends them.
    """

    dataset: Batches  # type: ignore[assignment]
    # What the iteration that began last is known by.
    _latest: object = None

    def __init__(self, dataset: Batches, **options: Any) -> None:
        # Lightning puts a sampler around ours that shares out the epoch, and would shuffle it a second time: several
        # processes would not have the pairs of one.
        sampler = options.get("sampler")
        if isinstance(sampler, DistributedSampler) and not isinstance(sampler, EpochSampler):
            sampler.shuffle = False
        super().__init__(dataset, **options)  # type: ignore[arg-type]
        data, images = dataset.dataset, image_dataset_of(dataset.dataset)
        # A transform returns tensors of its own, so that a batch with one cannot be its slot.
        self._slots = None
        if self.num_workers and images.transform is None:
            shape = slot_shape(data, self.batch_sampler.batch_size)  # type: ignore[union-attr]
            self._slots = Slots(shape, self.num_workers, self.prefetch_factor or 1)

    def __repr__(self) -> str:
        return f"<Loader: {len(self)} batches an epoch, {self.num_workers} workers, of {self.dataset.dataset!r}>"

    @property
    def _index_sampler(self) -> Rest:
        return Rest(super()._index_sampler, self.dataset.position, self._slots)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        position, slots = self.dataset.position, self._slots
        self._latest = mine = object()
        epoch, taken = position.epoch, position.skip
        position.taken = taken
        if slots:
            slots.before_waiting()
        # Workers start here and take the slots along. A loader that a library made of this dataset has none.
        self.dataset.slots = slots
        try:
            batches = super().__iter__()
        finally:
            self.dataset.slots = None
        try:
            for batch in batches:
                taken += 1
                if position.epoch == epoch:
                    self._go_to(epoch, taken)
                try:
                    yield self._assembled(slots, *batch) if slots else batch
                finally:
                    # This frame must not hold a batch while the next one is read. If the consumer leaves the loop, the
                    # spare slot lets a worker that waits for one finish; otherwise it could not end.
                    del batch
                    if slots:
                        slots.before_waiting()
                # It would get the other one's batches: workers that outlive an epoch are at work on one at a time.
                if self.num_workers and self._latest is not mine:
                    raise UserError(
                        "Another iteration of this loader has begun since, and its workers serve one at a time: make a "
                        "loader for each, or take workers=0."
                    )
        except UserError as error:
            # A DataLoader puts a worker's whole traceback into the message; the sentence is its end.
            raise UserError(str(error).rpartition(f"{UserError.__name__}: ")[2].strip()) from None

    def _assembled(self, slots: Slots, slot: int, latents: Any) -> Any:
        """Return the batch whose pixels are in this slot."""
        pixels = slots.lend(slot, len(latents))
        data = self.dataset.dataset
        return data.assemble(pixels.pin_memory() if self.pin_memory else pixels, torch.from_numpy(latents))

    def _go_to(self, epoch: int, batch: int) -> None:
        """Enter the position; after an epoch's last batch comes the first of the next epoch."""
        position = self.dataset.position
        over = batch >= len(self)
        position.epoch, position.taken = (epoch + 1, 0) if over else (epoch, batch)

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the next one to be read. Epochs also advance by themselves, each time that one was read."""
        self.dataset.position.set_epoch(epoch)

    def _settings(self) -> dict[str, Any]:
        """Return all that a position depends on. A loader that differs in any of it refuses a saved position."""
        # A library may have put a sampler of its own, which shares out the epoch, in the place of ours.
        return self.dataset.settings | {"world_size": getattr(self.sampler, "num_replicas", 1)}

    def state_dict(self) -> dict[str, Any]:
        """Return where the next batch comes from, and all that this depends on."""
        return {"epoch": self.dataset.position.epoch, "batch": self.dataset.position.taken, **self._settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from a loader with the same data, seed, batch size and ranks.

        All ranks stand at the same batch, so the state of any of them serves all.
        """
        for name, value in self._settings().items():
            if state.get(name) != value:
                what = (
                    f"of other {name}, or of {name} made with other settings"
                    if name in DIGESTS
                    else f"with {name} {state.get(name)}, and this one has {value}"
                )
                raise UserError(f"The saved position belongs to a loader {what}.")
        epoch, batch = state["epoch"], state["batch"]
        if not (type(epoch) is int and type(batch) is int and epoch >= 0 and 0 <= batch <= len(self)):
            raise UserError(f"There is no batch {batch} of epoch {epoch} in this loader.")
        self._go_to(epoch, batch)
        self.dataset.position.skip = self.dataset.position.taken
