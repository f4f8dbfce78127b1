"""`make_loader`: a DataLoader that fetches whole batches, goes on where it stopped, and says where that is."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from ident3d.errors import UserError
from ident3d.loaders.epochs import rank_batches
from ident3d.loaders.images import ImageDataset
from ident3d.loaders.pair_dataset import PairDataset
from ident3d.loaders.pair_streams import check_seed, permutation
from ident3d.processors import cores

MOST_WORKERS = 8


class Position(Sampler[Any]):
    """Hands out the batches of one epoch from `batch` on, as arrays of numbers.

    Pairs are counted over all epochs, so that a worker that outlives an epoch need not be told of the next one. Images
    are those of the epoch's own permutation.
    """

    def __init__(
        self, dataset: ImageDataset | PairDataset, batches: list[tuple[int, int]], seed: int, shuffle: bool
    ) -> None:
        self.dataset, self.batches, self.seed, self.shuffle = dataset, batches, seed, shuffle
        self.epoch = self.batch = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        length = len(self.dataset)
        order = np.arange(length)
        if isinstance(self.dataset, PairDataset):
            order += self.epoch * length
        elif self.shuffle:
            order = permutation(self.seed, self.epoch, length)
        for start, stop in self.batches[self.batch :]:
            yield order[start:stop]


class Batches:
    """What a worker sees: the dataset's batch of an array of numbers."""

    def __init__(self, dataset: ImageDataset | PairDataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbers: Any) -> Any:
        return self.dataset.batch(numbers)


class Loader(DataLoader[Any]):
    """A DataLoader over whole batches. An iteration goes on where the last one stopped, up to the end of its epoch.

    `state_dict` counts the batches that were handed out, not those that workers had prepared beyond them.
    """

    def __init__(self, position: Position, settings: dict[str, Any], **options: Any) -> None:
        self.position, self.settings = position, settings
        super().__init__(
            Batches(position.dataset),  # type: ignore[arg-type]
            batch_size=None,
            sampler=position,
            collate_fn=as_it_is,
            **options,
        )

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        for batch in super().__iter__():
            self.position.batch += 1
            yield batch
        self.position.epoch, self.position.batch = self.position.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch will come from, and what that depends on."""
        return {"epoch": self.position.epoch, "batch": self.position.batch, **self.settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which must come from a loader with the same data, seed, batch size and ranks."""
        for name, value in self.settings.items():
            if state.get(name) != value:
                raise UserError(
                    f"The saved position is of a loader with {name} {state.get(name)}, this one has {value}."
                )
        epoch, batch = state["epoch"], state["batch"]
        if not (type(epoch) is int and type(batch) is int and epoch >= 0 and 0 <= batch <= len(self.position)):
            raise UserError(f"There is no batch {batch} of epoch {epoch} in this loader.")
        self.position.epoch, self.position.batch = epoch, batch


def as_it_is(batch: Any) -> Any:
    return batch


def default_workers(dataset: ImageDataset | PairDataset) -> int:
    """None for packed files, which one process reads fast enough; else one for each core, up to eight."""
    source = dataset.source if isinstance(dataset, PairDataset) else dataset
    return 0 if source.packed or cores() == 1 else min(cores(), MOST_WORKERS)


def make_loader(
    dataset: ImageDataset | PairDataset,
    batch_size: int = 256,
    *,
    workers: int | None = None,
    prefetch: int = 2,
    seed: int = 0,
    shuffle: bool = True,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool | None = None,
    start_method: str | None = None,
) -> Loader:
    """A DataLoader of whole batches with the defaults that fit.

    `workers` processes fetch `prefetch` batches each ahead; by default none where the data are packed. Memory is pinned
    where there is a GPU. Batches, and their order, depend on the dataset, `batch_size`, `seed` (of the order of an
    ImageDataset's images, where `shuffle`), `rank` and `world_size` alone, not on workers; a last batch that is not
    full is left out. `state_dict` and `load_state_dict` keep the position.
    """
    workers = default_workers(dataset) if workers is None else workers
    if workers < 0 or prefetch < 1:
        raise UserError("A loader has 0 or more workers, and each fetches at least 1 batch ahead.")
    if isinstance(dataset, PairDataset):
        dataset.sampler.build()
        seed = dataset.sampler.seed
    batches = rank_batches(len(dataset), batch_size, rank, world_size)
    settings = {
        "length": len(dataset),
        "seed": check_seed(seed),
        "shuffle": shuffle,
        "batch_size": batch_size,
        "rank": rank,
        "world_size": world_size,
    }
    return Loader(
        Position(dataset, batches, seed, shuffle),
        settings,
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory,
        multiprocessing_context=start_method if workers else None,
    )
