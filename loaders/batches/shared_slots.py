"""Shared memory through which workers hand over pixels, and how many workers it and the machine allow.

Memory that is new to a process costs more than reading does, so a few slots serve all batches in turn. A batch is its
slot: nothing is copied, and the slot goes back to the workers when nothing refers to the batch any more.
"""

import math
import multiprocessing
import os
import shutil
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias
from weakref import finalize

import torch

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.machine import cores

MOST_WORKERS = 8
# Where Linux keeps it. A container often has 64 MB.
SHARED_MEMORY = Path("/dev/shm")
# Slots that a consumer may hold: a plain loop holds a batch while it asks for the next.
MOST_LENT = 2
# Seconds after which a waiting worker checks that its parent still runs.
PATIENCE = 5.0
# Bytes of a slot's number: a pipe passes so few in one piece.
TOKEN = 2
Dataset: TypeAlias = ImageDataset | PairDataset


def image_dataset_of(dataset: Dataset) -> ImageDataset:
    """Return the images that a dataset reads."""
    return dataset.source if isinstance(dataset, PairDataset) else dataset


def slot_shape(dataset: Dataset, batch_size: int) -> tuple[int, ...]:
    """Return the shape of a batch's pixels."""
    return (dataset.members * batch_size, *image_dataset_of(dataset).shape)


def slot_count(workers: int, prefetch: int) -> int:
    """Return how many slots no one ever waits for in vain: one per batch fetched ahead, and those that are lent."""
    return workers * prefetch + MOST_LENT if workers else 0


def free_shared_memory() -> float:
    """Return how many bytes of shared memory are free; infinity if the system does not say."""
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else math.inf


def default_workers(dataset: Dataset, shape: tuple[int, ...], prefetch: int) -> int:
    """Return one worker for each core, up to eight and as far as their slots of this shape fit into shared memory.

    It is 0 for packed files, which one process reads fast enough, and for a search on a GPU, which a fork cannot use.
    """
    on_gpu = isinstance(dataset, PairDataset) and dataset.sampler.on_gpu
    if image_dataset_of(dataset).packed or cores() == 1 or on_gpu:
        return 0
    workers = min(cores(), MOST_WORKERS)
    while workers and slot_count(workers, prefetch) * math.prod(shape) > free_shared_memory():
        workers -= 1
    return workers


class Slots:
    """The slots of one loader. Each is always in one of five states; an arrow is a method, and who calls it.

        spare                          one slot at the start: memory that is not used yet
          | before_waiting (consumer)
          v
        free  <----------------------+ its number is in the pipe, and any worker may take it
          | take (worker)            |
          v                          |
        taken --- free (worker) ---->+ a worker reads a batch into it; the read failed
          | fill (worker)            |
          v                          |
        filled -- recover (consumer) + its number travels to the consumer in the DataLoader's queue
          | lend (consumer)          |
          v                          |
        lent ---- give_back -------->+ the consumer holds the batch; its last array dies

    If the consumer still holds two batches when it asks for another, the spare slot is used as well, and the consumer
    gets a copy of the next batch, whose slot is free at once. So there is a slot for each batch that is fetched ahead,
    whatever the consumer holds, and no worker waits in vain.
    """

    def __init__(self, shape: tuple[int, ...], workers: int, prefetch: int) -> None:
        count = slot_count(workers, prefetch)
        needed = count * math.prod(shape)
        if needed > free_shared_memory():
            raise UserError(
                f"The batches of {workers} workers need {needed / 1e6:,.0f} MB of shared memory, and "
                f"{free_shared_memory() / 1e6:,.0f} are free: use workers=0, or give a container more by --shm-size."
            )
        self.memory = [allocate(shape) for _ in range(count)]
        self.reader, self.writer = multiprocessing.Pipe(duplex=False)
        os.set_blocking(self.reader.fileno(), False)
        self.lent: dict[object, int] = {}
        self.spare = [count - 1]

    def take(self) -> int:
        """free → taken, in a worker: wait for a free slot. The worker ends if its parent has ended."""
        parent = multiprocessing.parent_process()
        while (slot := read_token(self.reader)) is None:
            if not self.reader.poll(PATIENCE) and not (parent and parent.is_alive()):
                sys.exit()
        return slot

    def free(self, slot: int) -> None:
        """→ free: let a worker take this slot."""
        os.write(self.writer.fileno(), token(slot))

    def lend(self, slot: int, images: int) -> torch.Tensor:
        """filled → lent: return the slot's first images, until the tensor and all views of it are gone; or a copy."""
        pixels = self.memory[slot].numpy()[:images]
        if len(self.lent) == MOST_LENT:
            pixels = pixels.copy()
            self.free(slot)
        else:
            # `pixels` is an array of its own, which the tensor made of it keeps alive: its end is the end of the loan.
            # The finaliser keeps both ends of the pipe and not `self`, as the loader may be gone before its last batch.
            loan = object()
            self.lent[loan] = slot
            finalize(pixels, give_back, (self.reader, self.writer), self.lent, loan, os.getpid()).atexit = False
        return torch.from_numpy(pixels)

    def before_waiting(self) -> None:
        """spare → free, if the consumer is about to wait for workers while it holds all that it may."""
        if len(self.lent) == MOST_LENT and self.spare:
            self.free(self.spare.pop())

    def recover(self) -> None:
        """filled → free for all batches that the consumer left behind, while no worker is busy."""
        # `lent` is read before the pipe. A slot that comes back in between is then in one of them, or in both.
        lent = set(self.lent.values())
        free: set[int] = set()
        while (found := read_token(self.reader)) is not None:
            free.add(found)
        for slot in range(len(self.memory)):
            if slot in free or not (slot in lent or slot in self.spare):
                self.free(slot)


def allocate(shape: tuple[int, ...]) -> torch.Tensor:
    """Return shared memory that takes up none until it is written to. `share_memory_` would write it all at once."""
    storage = torch.UntypedStorage._new_shared(math.prod(shape))  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(storage).view(shape)


def give_back(pipe: tuple[Connection, Connection], lent: dict[object, int], loan: object, owner: int) -> None:
    """lent → free: end a loan. The copy of an array that a forked process holds ends no loan."""
    # Arrays die in any thread, also while another call of Slots runs, so no lock may be taken here. The loan is deleted
    # last: in between, the slot is in the pipe and in `lent`, which `recover` expects, and never in neither.
    if os.getpid() == owner:
        os.write(pipe[1].fileno(), token(lent[loan]))
        del lent[loan]


def token(slot: int) -> bytes:
    return slot.to_bytes(TOKEN, sys.byteorder)


def read_token(reader: Connection) -> int | None:
    """Return a number from the pipe, or None if it is empty."""
    try:
        return int.from_bytes(os.read(reader.fileno(), TOKEN), sys.byteorder)
    except BlockingIOError:
        return None
