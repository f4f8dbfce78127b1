"""Shared memory through which workers hand over pixels, and how many workers it and the machine allow."""

import math
import shutil
from pathlib import Path
from typing import TypeAlias

import torch

from ident3d.errors import UserError
from ident3d.loaders.images import ImageDataset
from ident3d.loaders.pair_dataset import PairDataset
from ident3d.processors import cores

MOST_WORKERS = 8
SHARED_MEMORY = Path("/dev/shm")  # where Linux keeps it; a container often has 64 MB
Dataset: TypeAlias = ImageDataset | PairDataset


def source_of(dataset: Dataset) -> ImageDataset:
    """The images that a dataset reads."""
    return dataset.source if isinstance(dataset, PairDataset) else dataset


def slot_count(workers: int, prefetch: int) -> int:
    """Slots that never make a worker wait: one for each batch that is asked for ahead, and one that is being read."""
    return workers * prefetch + 1 if workers else 0


def free_shared_memory() -> float:
    """Bytes of shared memory that are free, where the system says so."""
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else math.inf


def default_workers(dataset: Dataset, shape: tuple[int, ...], prefetch: int) -> int:
    """One worker for each core, up to eight and as far as their slots of this shape fit into shared memory.

    None for packed files, which one process reads fast enough, and for a search on a GPU, which a fork cannot use.
    """
    on_gpu = isinstance(dataset, PairDataset) and dataset.sampler.neighbours.on_gpu
    if source_of(dataset).packed or cores() == 1 or on_gpu:
        return 0
    workers = min(cores(), MOST_WORKERS)
    while workers and slot_count(workers, prefetch) * math.prod(shape) > free_shared_memory():
        workers -= 1
    return workers


def shared_slots(shape: tuple[int, ...], workers: int, prefetch: int) -> list[torch.Tensor]:
    """The slots of `workers`, or a sentence that says what they need where shared memory does not hold them."""
    count = slot_count(workers, prefetch)
    needed = count * math.prod(shape)
    if needed > free_shared_memory():
        raise UserError(
            f"The batches of {workers} workers need {needed / 1e6:,.0f} MB of shared memory, and "
            f"{free_shared_memory() / 1e6:,.0f} are free: use workers=0, or give a container more by --shm-size."
        )
    slots = [torch.empty(shape, dtype=torch.uint8) for _ in range(count)]
    for slot in slots:
        slot.share_memory_()  # type: ignore[no-untyped-call]
    return slots
