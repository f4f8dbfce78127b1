"""How an epoch is divided into batches and ranks, and which numbers of pairs or images it reads in which order."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, SupportsIndex

import numpy as np
from torch.utils.data import Sampler
from torch.utils.data.distributed import DistributedSampler

from ident3d.errors import UserError
from ident3d.loaders.batches.shared_slots import Dataset, Slots
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.pairs.variates import permutation


def rank_batches(
    length: int, batch_size: int, rank: int = 0, world_size: int = 1, drop_last: bool = True
) -> list[tuple[int, int]]:
    """Return the ranges [start, stop) of an epoch's numbers that one rank takes, in order.

    Step t of all R ranks together covers the numbers t·R·B … (t+1)·R·B - 1, and rank r takes the r-th B of them. The
    numbers at the end that do not fill a step are left out with `drop_last`. Without it the same rule shares them out,
    so a rank's last batch may be short or missing. An epoch shorter than one step is a single short batch.
    """
    if not isinstance(batch_size, SupportsIndex) or batch_size < 1:
        raise UserError(f"A batch is a whole number of at least one sample, not {batch_size!r}.")
    if not 0 <= rank < world_size:
        raise UserError(f"Ranks are numbered from 0 to {world_size - 1}; there is no rank {rank}.")
    step = batch_size * world_size
    end = length
    if drop_last and length >= step:
        end -= length % step
    elif drop_last and world_size > 1:
        raise UserError(f"An epoch of {length} samples does not fill one batch of {batch_size} on {world_size} ranks.")
    return [(first, min(first + batch_size, length)) for first in range(rank * batch_size, end, step)]


class EpochSampler(Sampler[int]):
    """Gives one rank's numbers of an epoch, and holds the position: an epoch, and how many of its batches were taken.

    Pairs are counted over all epochs, so a worker that outlives an epoch needs no message about the next one. Images
    follow the epoch's own permutation. Libraries find `set_epoch` here, and may wrap this sampler in one of theirs.
    """

    def __init__(self, dataset: Dataset, ranges: list[tuple[int, int]], seed: int, shuffle: bool) -> None:
        self.length, self.ranges, self.seed = len(dataset), ranges, seed
        self.pairs, self.shuffle = isinstance(dataset, PairDataset), shuffle
        self.epoch = dataset.epoch if isinstance(dataset, PairDataset) else 0
        # The batches that were taken, and those that the next iteration leaves out: none, unless a state was loaded.
        self.taken = self.skip = 0

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the next one to be read. A position that was loaded in the middle of this very epoch stays."""
        if epoch < 0:
            raise UserError(f"Epochs are numbered from 0; there is no epoch {epoch}.")
        if epoch != self.epoch:
            self.epoch, self.taken, self.skip = epoch, 0, 0

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.ranges)

    def __iter__(self) -> Iterator[int]:
        order = np.arange(self.length)
        if self.pairs:
            order += self.epoch * self.length
        elif self.shuffle:
            order = permutation(self.seed, self.epoch, self.length)
        for start, stop in self.ranges:
            yield from order[start:stop].tolist()


class RankSampler(EpochSampler, DistributedSampler[int]):
    """An epoch of several ranks. Lightning shares out among its processes what is no DistributedSampler."""

    def __init__(self, *given: Any, rank: int, world_size: int) -> None:
        EpochSampler.__init__(self, *given)
        self.rank, self.num_replicas = rank, world_size


class Rest:
    """The batches that are left of an epoch, whichever sampler they come from."""

    def __init__(self, batches: Any, position: EpochSampler, slots: Slots | None) -> None:
        self.batches, self.position, self.slots = batches, position, slots

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        # A DataLoader asks for a first batch only when its workers have finished all earlier ones: no one is busy.
        if self.slots:
            self.slots.recover()
        skip, self.position.skip = self.position.skip, 0
        yield from islice(self.batches, skip, None)
