"""Shared memory through which workers hand over pixels, and how many workers it and the machine allow.

Memory that is new to a process costs more than reading does, so that a few slots serve all batches in turn. A batch is
its slot: nothing is copied, and the slot goes back to the workers once nobody refers to the batch any more.
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
SHARED_MEMORY = Path("/dev/shm")  # where Linux keeps it; a container often has 64 MB
LENT = 2  # slots that a consumer may hold: a plain loop holds a batch while it asks for the next
PATIENCE = 5.0  # seconds after which a worker that waits looks whether its parent lives
TOKEN = 2  # bytes of a slot's number: so few are written to a pipe, and read from it, in one piece
Dataset: TypeAlias = ImageDataset | PairDataset


def image_dataset_of(dataset: Dataset) -> ImageDataset:
    """The images that a dataset reads."""
    return dataset.source if isinstance(dataset, PairDataset) else dataset


def slot_count(workers: int, prefetch: int) -> int:
    """Slots that never make anyone wait for ever: one for each batch fetched ahead, and those that are lent."""
    return workers * prefetch + LENT if workers else 0


def free_shared_memory() -> float:
    """Bytes of shared memory that are free, where the system says so."""
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else math.inf


def default_workers(dataset: Dataset, shape: tuple[int, ...], prefetch: int) -> int:
    """One worker for each core, up to eight and as far as their slots of this shape fit into shared memory.

    None for packed files, which one process reads fast enough, and for a search on a GPU, which a fork cannot use.
    """
    on_gpu = isinstance(dataset, PairDataset) and dataset.sampler.neighbours.on_gpu
    if image_dataset_of(dataset).packed or cores() == 1 or on_gpu:
        return 0
    workers = min(cores(), MOST_WORKERS)
    while workers and slot_count(workers, prefetch) * math.prod(shape) > free_shared_memory():
        workers -= 1
    return workers


class Slots:
    """Slots for the workers of one loader, whose free ones are numbers in a pipe: a worker takes one, or waits for it.

    All but one are in use from the start: one for each batch fetched ahead and one for the consumer. A consumer that
    still holds two batches when it asks for another makes the last one be used too, and what it is given while it holds
    two is a copy. So there is always a slot for each batch that is fetched, and nobody waits for ever.
    """

    def __init__(self, shape: tuple[int, ...], workers: int, prefetch: int) -> None:
        count = slot_count(workers, prefetch)
        needed = count * math.prod(shape)
        if needed > free_shared_memory():
            raise UserError(
                f"The batches of {workers} workers need {needed / 1e6:,.0f} MB of shared memory, and "
                f"{free_shared_memory() / 1e6:,.0f} are free: use workers=0, or give a container more by --shm-size."
            )
        self.memory = [untouched(shape) for _ in range(count)]
        self.reader, self.writer = multiprocessing.Pipe(duplex=False)
        os.set_blocking(self.reader.fileno(), False)
        self.lent: dict[object, int] = {}
        self.unused = [count - 1]

    def take(self) -> int:
        """In a worker: a free slot, once there is one. The worker ends if its parent has."""
        parent = multiprocessing.parent_process()
        while (slot := read_token(self.reader)) is None:
            if not self.reader.poll(PATIENCE) and not (parent and parent.is_alive()):
                sys.exit()
        return slot

    def free(self, slot: int) -> None:
        """Let a worker take this slot."""
        os.write(self.writer.fileno(), token(slot))

    def lend(self, slot: int, images: int) -> torch.Tensor:
        """The first images of a slot, which goes back when the tensor and all views of it are gone; or a copy."""
        pixels = self.memory[slot].numpy()[:images]  # a new array, which the tensor made of it keeps alive
        if len(self.lent) == LENT:
            pixels = pixels.copy()
            self.free(slot)
        else:
            loan = object()
            self.lent[loan] = slot
            pipe = (self.reader, self.writer)  # both ends, and not self: the other slots may go before this one
            finalize(pixels, give_back, pipe, self.lent, loan, os.getpid()).atexit = False
        return torch.from_numpy(pixels)

    def before_waiting(self) -> None:
        """To be called before the consumer waits for workers."""
        if len(self.lent) == LENT and self.unused:
            self.free(self.unused.pop())

    def recover(self) -> None:
        """Put back the slots whose batches were never taken, while no worker is busy."""
        lent = set(self.lent.values())  # before the pipe is read: what comes back from now on is in either or both
        free: set[int] = set()
        while (found := read_token(self.reader)) is not None:
            free.add(found)
        for slot in range(len(self.memory)):
            if slot in free or not (slot in lent or slot in self.unused):
                self.free(slot)


def untouched(shape: tuple[int, ...]) -> torch.Tensor:
    """Shared memory that takes none before it is written to, which `share_memory_` does at once."""
    storage = torch.UntypedStorage._new_shared(math.prod(shape))  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(storage).view(shape)


def give_back(pipe: tuple[Connection, Connection], lent: dict[object, int], loan: object, owner: int) -> None:
    """The end of a loan. Arrays die anywhere, in any thread, so no lock is taken; those of a fork do not count."""
    if os.getpid() == owner:
        os.write(pipe[1].fileno(), token(lent[loan]))
        del lent[loan]  # last: in between the slot is in both places, and never in none


def token(slot: int) -> bytes:
    return slot.to_bytes(TOKEN, sys.byteorder)


def read_token(reader: Connection) -> int | None:
    """A number from the pipe, if there is one."""
    try:
        return int.from_bytes(os.read(reader.fileno(), TOKEN), sys.byteorder)
    except BlockingIOError:
        return None
