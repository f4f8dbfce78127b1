"""`make_loader`: a DataLoader of whole batches, whose position can be saved and restored."""

import multiprocessing
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from ident3d.errors import UserError
from ident3d.loaders.batches.epochs import rank_batches
from ident3d.loaders.batches.shared_slots import Dataset, Slots, default_workers, image_dataset_of
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.format.files import sha256
from ident3d.loaders.pairs.variates import check_seed, permutation


class Position(Sampler[Any]):
    """Gives the batches of one epoch from `batch` on, as arrays of numbers.

    Pairs are counted over all epochs, so a worker that outlives an epoch needs no message about the next one. Images
    follow the epoch's own permutation.
    """

    def __init__(
        self, dataset: Dataset, batches: list[tuple[int, int]], seed: int, shuffle: bool, slots: Slots | None
    ) -> None:
        self.dataset, self.batches, self.seed, self.shuffle, self.slots = dataset, batches, seed, shuffle, slots
        self.epoch = dataset.epoch if isinstance(dataset, PairDataset) else 0
        self.batch = 0

    def go_to(self, epoch: int, batch: int) -> None:
        """Make batch `batch` of an epoch the next one; after an epoch's last comes the first of the next epoch."""
        over = batch >= len(self)
        self.epoch, self.batch = (epoch + 1, 0) if over else (epoch, batch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        # A DataLoader asks for a first batch only when its workers have finished all earlier ones: no one is busy.
        if self.slots:
            self.slots.recover()
        length = len(self.dataset)
        order = np.arange(length)
        if isinstance(self.dataset, PairDataset):
            order += self.epoch * length
        elif self.shuffle:
            order = permutation(self.seed, self.epoch, length)
        for start, stop in self.batches[self.batch :]:
            yield order[start:stop]


class Batches:
    """Fetches the batch of an array of numbers; in a worker with slots its latents, and the pixels into a slot."""

    def __init__(self, dataset: Dataset, slots: Slots | None) -> None:
        self.dataset, self.slots = dataset, slots

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbers: Any) -> Any:
        """Return the batch, or a UserError as a value."""
        # A DataLoader wraps what a worker raises in a traceback. A value arrives as it is, and the parent raises it.
        try:
            if not self.slots:
                return self.dataset.batch(numbers)
            slot = self.slots.take()
            try:
                pixels = self.slots.memory[slot][: self.dataset.members * len(numbers)]
                return slot, self.dataset.fill(numbers, pixels.numpy())
            except BaseException:
                self.slots.free(slot)
                raise
        except UserError as error:
            return error


class Loader(DataLoader[Any]):
    """A DataLoader over whole batches. An iteration goes on where the last one stopped, up to the end of its epoch.

    `state_dict` counts the batches that the consumer got, not those that workers have prepared beyond them. After the
    last batch the position is in the next epoch, whether or not the consumer asks for one more.
    """

    def __init__(self, position: Position, fetch: Batches, settings: dict[str, Any], pin: bool, **options: Any) -> None:
        self.position, self.fetch, self.settings, self.pin = position, fetch, settings, pin
        super().__init__(
            fetch,  # type: ignore[arg-type]
            batch_size=None,
            sampler=position,
            collate_fn=as_it_is,
            pin_memory=pin and not fetch.slots,
            **options,
        )

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        slots = self.fetch.slots
        if slots:
            slots.before_waiting()
        for batch in super().__iter__():
            if isinstance(batch, UserError):
                raise batch from None
            self.position.go_to(self.position.epoch, self.position.batch + 1)
            try:
                yield self._assembled(slots, *batch) if slots else batch
            finally:
                # This frame must not hold a batch while the next one is read. If the consumer leaves the loop, the
                # spare slot lets a worker that waits for one finish; otherwise it could not end.
                del batch
                if slots:
                    slots.before_waiting()

    def _assembled(self, slots: Slots, slot: int, latents: Any) -> Any:
        """Return the batch whose pixels are in this slot."""
        pixels = slots.lend(slot, len(latents))
        return self.fetch.dataset.assemble(pixels.pin_memory() if self.pin else pixels, torch.from_numpy(latents))

    def state_dict(self) -> dict[str, Any]:
        """Return where the next batch comes from, and all that this depends on."""
        return {"epoch": self.position.epoch, "batch": self.position.batch, **self.settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from a loader with the same data, seed, batch size and ranks."""
        for name, value in self.settings.items():
            if state.get(name) != value:
                what = (
                    f"of other {name}, or of {name} made with other settings"
                    if name in DIGESTS
                    else f"with {name} {state.get(name)}, and this one has {value}"
                )
                raise UserError(f"The saved position belongs to a loader {what}.")
        epoch, batch = state["epoch"], state["batch"]
        if not (type(epoch) is int and type(batch) is int and epoch >= 0 and 0 <= batch <= len(self.position)):
            raise UserError(f"There is no batch {batch} of epoch {epoch} in this loader.")
        self.position.go_to(epoch, batch)


DIGESTS = ("images", "pairs")


def digests(dataset: Dataset) -> dict[str, str]:
    """Return a hash of the images, and one of how pairs are drawn among them: a position depends on both."""
    shards = [part.folder.description.shards_sha256 for part in image_dataset_of(dataset).parts]
    found = {"images": sha256(repr(shards).encode())}
    if isinstance(dataset, PairDataset):
        s = dataset.sampler
        how = (s.conditional, s.negative, s.anchors, s.neighbours.search, s.neighbours.classes is not None)
        found["pairs"] = sha256(repr(how).encode())
    return found


def as_it_is(batch: Any) -> Any:
    return batch


def make_loader(
    dataset: Dataset,
    batch_size: int = 256,
    *,
    workers: int | None = None,
    prefetch: int = 1,
    seed: int | None = None,
    shuffle: bool = True,
    drop_last: bool | None = None,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool | None = None,
    start_method: str | None = None,
) -> Loader:
    """Return a DataLoader of whole batches.

    Batches and their order depend on the dataset, `batch_size`, `seed`, `rank` and `world_size` alone, not on workers.
    `state_dict` and `load_state_dict` save and restore the position.

    Args:
        dataset: Images, or pairs of them.
        batch_size: Samples of one rank's batch.
        workers: Processes that fetch batches; by default one a core, and 0 if the data are packed. They take the memory
            of workers · prefetch + 1 batches while the consumer holds one batch.
        prefetch: Batches that each worker fetches ahead.
        seed: Of the order of an ImageDataset's images, by default 0. A PairDataset has a seed of its own.
        shuffle: Draw the order of an ImageDataset's images anew for each epoch.
        drop_last: Leave out a last batch that is not full; the default, except for images in their own order.
        rank: This process among the `world_size` processes that share out each epoch.
        world_size: The number of those processes.
        pin_memory: Copy batches to pinned memory; by default if there is a GPU.
        start_method: How workers are started, such as "spawn"; by default Python's.

    Returns:
        A `Loader` to iterate over, an epoch at a time.

    Example:
        >>> from ident3d import PairDataset, make_loader
        >>> loader = make_loader(PairDataset(dataset, sigma=0.3), batch_size=8, workers=0)
        >>> (z, z_tilde), (x, x_tilde) = next(iter(loader))
        >>> z.shape, x.shape[:2]
        (torch.Size([8, 10]), torch.Size([8, 3]))
    """
    pairs = isinstance(dataset, PairDataset)
    drop_last = pairs or shuffle if drop_last is None else drop_last
    batches = rank_batches(len(dataset), batch_size, rank, world_size, drop_last)
    source = image_dataset_of(dataset)
    shape = (dataset.members * min(batch_size, len(dataset)), source.size, source.size, 3)
    workers = default_workers(dataset, shape, max(1, prefetch)) if workers is None else workers
    if workers < 0 or prefetch < 1:
        raise UserError("A loader has 0 or more workers, and each fetches at least 1 batch ahead.")
    if isinstance(dataset, PairDataset):
        if seed not in (None, dataset.sampler.seed):
            raise UserError(f"These pairs have the seed {dataset.sampler.seed}; give the PairDataset seed={seed}.")
        seed = dataset.sampler.seed
        method = start_method or multiprocessing.get_start_method()
        if workers and dataset.sampler.neighbours.on_gpu and method == "fork":
            raise UserError("FAISS cannot use a GPU in a forked worker: use workers=0 or start_method='spawn'.")
        # Built before the workers start: forked ones share the index, instead of each building its own.
        dataset.sampler.build()
    seed = check_seed(seed or 0)
    # All that a position depends on. A loader that differs in any of it refuses a saved position.
    settings = digests(dataset) | {
        "length": len(dataset),
        "seed": seed,
        "shuffle": shuffle,
        "drop_last": drop_last,
        "batch_size": batch_size,
        "rank": rank,
        "world_size": world_size,
    }
    # A transform returns tensors of its own, so that a batch with one cannot be its slot.
    slots = Slots(shape, workers, prefetch) if workers and source.transform is None else None
    return Loader(
        Position(dataset, batches, seed, shuffle, slots),
        Batches(dataset, slots),
        settings,
        pin=torch.cuda.is_available() if pin_memory is None else pin_memory,
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        persistent_workers=workers > 0,
        multiprocessing_context=start_method if workers else None,
    )
