"""What the farm sends to a worker, what the worker does about it, and what it answers."""

import atexit
import os
import pickle
import socket
import time
from dataclasses import dataclass
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from distributed import get_worker

from ident3d.errors import UserError
from ident3d.farm.render_shard import Settings, StudioOf, differing_versions, render_shard
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.store_transfer import workplace
from ident3d.loaders.format.files import FULL
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.machine import cpu_model


@dataclass(frozen=True)
class Finished:
    """What a worker returns of a shard that is safely on disk: its entry, and the host and processor that made it."""

    entry: ShardEntry
    host: str


@dataclass(frozen=True)
class Hopeless:
    """What a worker returns instead where trying again, or another job, would meet the same."""

    sentence: str


class Cancelled(Exception):
    """Nobody waits for this shard any more."""


@dataclass(frozen=True)
class Task:
    """What all jobs of a run share: folder and settings, threads of a studio, where to tell of images, which studio."""

    folder: str
    settings: Settings
    threads: int
    topic: str
    tell_seconds: float
    studio_of: StudioOf


# What a worker is asked to evaluate. A worker that meets an unknown class while it reads its jobs dies, with whatever
# else it was doing for others; one that lacks ident3d can read this, and answers with an ImportError.
WORK = "__import__('ident3d.farm.worker', fromlist=['work']).work(job)"


def work(pickled: bytes) -> Finished | Hopeless:
    """Runs on a worker: render the shard of a (Task, Job), telling the client of its images about twice a second."""
    task, job = pickle.loads(pickled)
    worker = get_worker()
    key, told = worker.get_current_task(), 0.0
    if refusal := unfit(task, worker):
        return Hopeless(refusal)
    end_at_once()

    def on_image(done: int) -> None:
        nonlocal told
        known = worker.state.tasks.get(key)
        if known is None or known.state == "cancelled":
            raise Cancelled
        if time.monotonic() - told >= task.tell_seconds:
            told = time.monotonic()
            worker.log_event(task.topic, {"worker": worker.address, "first": job.first, "done": done})

    gpu_index = worker.name if isinstance(worker.name, int) else 0
    there = store_or_folder(task.folder)
    try:
        with workplace(there, task.settings, job) as path:
            entry = render_shard(path, task.settings, job, task.threads, gpu_index, on_image, studio_of=task.studio_of)
    except UserError as error:
        says = f"The worker {worker.address} says: " if isinstance(there, Store) else ""  # here may be anywhere
        return Hopeless(f"{says}{error}")
    except ImportError as error:
        return Hopeless(f"Blender cannot be loaded ({error}); `ident3d doctor` says what is missing.")
    except OSError as error:
        if error.errno in FULL:
            return Hopeless(f"The disk of {task.folder} is full; free some space and run the same command again.")
        raise
    return Finished(entry, f"{socket.gethostname()} ({cpu_model()})")


@cache
def end_at_once() -> None:
    """Have this process, if it was begun to be a worker, end without Blender's own ending.

    Blender was loaded in one of Dask's threads, and then its last destructor waits for ever. The nanny would wait with
    it: for the next worker after a lifetime, or to end itself after its scheduler.
    """
    if parent_process():
        atexit.register(os._exit, 0)


def unfit(task: Task, worker: Any) -> str | None:
    """Why this worker must not render: an image may not depend on who rendered it. None if it may."""
    who = f"The worker {worker.address} on {socket.gethostname()}"
    if differ := differing_versions(task.settings):
        return f"{who} has other versions than the dataset ({differ}); install the same there."
    if worker.state.nthreads != 1:
        return (
            f"{who} takes {worker.state.nthreads} jobs at a time, but a process holds one studio; "
            "start it with --nthreads 1, and --nworkers for more processes."
        )
    there = store_or_folder(task.folder)
    if isinstance(there, Path) and not is_dataset(there):
        return f"{who} does not see the folder {task.folder}; workers and client must share it under the same name."
    return None
