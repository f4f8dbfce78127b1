"""The iterable form of a PairDataset: an epoch of whole batches, shared out among ranks and DataLoader workers."""

from collections.abc import Iterator

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from ident3d.loaders.batches.epochs import rank_batches
from ident3d.loaders.datasets.pair_dataset import PairDataset, Sample


class PairIterable(IterableDataset[Sample]):
    """For a DataLoader with ``batch_size=None``: each iteration yields the batches of the epoch that was set.

    Worker w of W yields the rank's batches w, w + W, …, and a DataLoader takes its workers in turn, so that the
    sequence of batches is the same with any number of workers.
    """

    def __init__(self, dataset: PairDataset, batch_size: int, rank: int, world_size: int) -> None:
        self.dataset = dataset
        self.batches = rank_batches(len(dataset), batch_size, rank, world_size)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration goes through."""
        self.dataset.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Sample]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        first = self.dataset.epoch * len(self.dataset)
        for start, stop in self.batches[worker::workers]:
            yield self.dataset.batch(np.arange(first + start, first + stop))
