"""`make_loader`: a DataLoader that fetches whole batches, goes on where it stopped, and says where that is."""

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
    """Hands out the batches of one epoch from `batch` on, as arrays of numbers.

    Pairs are counted over all epochs, so that a worker that outlives an epoch need not be told of the next one. Images
    are those of the epoch's own permutation.
    """

    def __init__(
        self, dataset: Dataset, batches: list[tuple[int, int]], seed: int, shuffle: bool, slots: Slots | None
    ) -> None:
        self.dataset, self.batches, self.seed, self.shuffle, self.slots = dataset, batches, seed, shuffle, slots
        self.epoch = dataset.epoch if isinstance(dataset, PairDataset) else 0
        self.batch = 0

    def go_to(self, epoch: int, batch: int) -> None:
        """Batch `batch` of an epoch is the next; after the last one that is the next epoch's first."""
        over = batch >= len(self)
        self.epoch, self.batch = (epoch + 1, 0) if over else (epoch, batch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        if self.slots:
            self.slots.recover()  # a DataLoader asks for a first batch once its workers are done with all earlier ones
        length = len(self.dataset)
        order = np.arange(length)
        if isinstance(self.dataset, PairDataset):
            order += self.epoch * length
        elif self.shuffle:
            order = permutation(self.seed, self.epoch, length)
        for start, stop in self.batches[self.batch :]:
            yield order[start:stop]


class Batches:
    """What fetches: the batch of an array of numbers, or, in a worker with slots, its latents, the pixels in a slot."""

    def __init__(self, dataset: Dataset, slots: Slots | None) -> None:
        self.dataset, self.slots = dataset, slots

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbers: Any) -> Any:
        """The batch, or the UserError that it met: raised in a worker it would arrive wrapped in a traceback."""
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

    `state_dict` counts the batches that were handed out, not those that workers had prepared beyond them. The position
    is in the next epoch once the last batch is handed out, whether or not the consumer asks for one more.
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
                del batch  # not to be kept while the next one is read
                if slots:
                    slots.before_waiting()  # or before it leaves: a worker that waits for a slot could not end

    def _assembled(self, slots: Slots, slot: int, latents: Any) -> Any:
        """The batch whose pixels are in this slot."""
        pixels = slots.lend(slot, len(latents))
        return self.fetch.dataset.assemble(pixels.pin_memory() if self.pin else pixels, torch.from_numpy(latents))

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch will come from, and what that depends on."""
        return {"epoch": self.position.epoch, "batch": self.position.batch, **self.settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from a loader with the same data, seed, batch size and ranks."""
        for name, value in self.settings.items():
            if name in DIGESTS and state.get(name) != value:
                raise UserError(f"The saved position is of a loader of other {name}, or of {name} made otherwise.")
            if state.get(name) != value:
                raise UserError(
                    f"The saved position is of a loader with {name} {state.get(name)}, this one has {value}."
                )
        epoch, batch = state["epoch"], state["batch"]
        if not (type(epoch) is int and type(batch) is int and epoch >= 0 and 0 <= batch <= len(self.position)):
            raise UserError(f"There is no batch {batch} of epoch {epoch} in this loader.")
        self.position.go_to(epoch, batch)


DIGESTS = ("images", "pairs")


def digests(dataset: Dataset) -> dict[str, str]:
    """What a position depends on besides numbers: the images, and how pairs are drawn among them, each as a hash."""
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
    """A DataLoader of whole batches with the defaults that fit.

    `workers` processes fetch `prefetch` batches each ahead; by default none where the data are packed. Their memory is
    that of workers · prefetch + 1 batches while the consumer holds no batch but the last. Memory is pinned where there
    is a GPU. Batches, and their order, depend on the dataset, `batch_size`, `seed`, `rank` and `world_size`
    alone, not on workers. The seed is of the order of an ImageDataset's images, where `shuffle`, by default 0; a
    PairDataset has its own. A last batch that is not full is left out with `drop_last`, which is the default except for
    images in their own order. `state_dict` and `load_state_dict` keep the position.
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
        dataset.sampler.build()
    seed = check_seed(seed or 0)
    settings = digests(dataset) | {
        "length": len(dataset),
        "seed": seed,
        "shuffle": shuffle,
        "drop_last": drop_last,
        "batch_size": batch_size,
        "rank": rank,
        "world_size": world_size,
    }
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
