"""What runs on a worker: it takes a task and a job, renders the shard, and answers with its entry."""

import atexit
import os
import pickle
import socket
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from distributed import get_worker

from ident3d.blender_scenes.scene_files import SceneFile, keep
from ident3d.errors import UserError
from ident3d.farm.render_shard import ImageFailed, RecordedSettings, StudioOf, differing_versions, render_shard
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.store_transfer import scratch_for_job
from ident3d.loaders.format.files import FULL
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.machine import cpu_model


@dataclass(frozen=True)
class ShardDone:
    """A shard is safely on disk: its entry, and the host and processor that made it."""

    entry: ShardEntry
    host: str


@dataclass(frozen=True)
class FatalForRun:
    """A worker's answer if another try, or another job, would meet the same."""

    reason: str


@dataclass(frozen=True)
class FatalForShard:
    """A worker's answer if another try of this job would meet the same, and other jobs may not."""

    reason: str


class Cancelled(Exception):
    """The client no longer wants this shard."""


@dataclass(frozen=True)
class Task:
    """What all jobs of a run share; `topic` is where workers report their images."""

    folder: str
    settings: RecordedSettings
    threads: int
    topic: str
    report_seconds: float
    studio_of: StudioOf
    files: tuple[SceneFile, ...] = ()


# A worker evaluates this text. If a worker met an unknown class while it unpickles a job, it would die, with all that
# it does for others. Without ident3d it can still read a text, and it answers with an ImportError.
WORK = "__import__('ident3d.farm.worker', fromlist=['work']).work(job)"


def work(pickled: bytes) -> ShardDone | FatalForShard | FatalForRun:
    """Render the shard of a pickled (Task, Job) on a worker, and report its images about twice a second."""
    task, job = pickle.loads(pickled)
    worker = get_worker()
    key, last_report = worker.get_current_task(), 0.0
    if refusal := unfit(task, worker):
        return FatalForRun(refusal)
    end_at_once()
    keep(task.files)

    def on_image(done: int) -> None:
        nonlocal last_report
        known = worker.state.tasks.get(key)
        if known is None or known.state == "cancelled":
            raise Cancelled
        if time.monotonic() - last_report >= task.report_seconds:
            last_report = time.monotonic()
            worker.log_event(task.topic, {"worker": worker.address, "first": job.first, "done": done})

    # Workers of this machine have their numbers as names, so each takes a GPU of its own.
    gpu_index = worker.name if isinstance(worker.name, int) else 0
    there = store_or_folder(task.folder)
    working_folder = scratch_for_job(there, task.settings, job) if isinstance(there, Store) else nullcontext(there)
    try:
        with working_folder as path:
            entry = render_shard(path, task.settings, job, task.threads, gpu_index, on_image, studio_of=task.studio_of)
    except ImageFailed as error:
        return FatalForShard(str(error))
    except UserError as error:
        # With a store the worker may be on any host, and what is wrong may be wrong on that host alone.
        who = f"On the worker {worker.address}: " if isinstance(there, Store) else ""
        return FatalForRun(f"{who}{error}")
    except ImportError as error:
        return FatalForRun(f"Blender cannot be loaded ({error}); `ident3d doctor` shows what is missing.")
    except OSError as error:
        if error.errno in FULL:
            return FatalForRun(f"The disk of {task.folder} is full; free some space and run the same command again.")
        raise
    return ShardDone(entry, f"{socket.gethostname()} ({cpu_model()})")


@cache
def end_at_once() -> None:
    """Make this process end without Blender's own clean-up, if it was started as a worker."""
    # Blender was loaded in one of Dask's threads, so its last destructor would wait for good. The nanny would wait with
    # it, and neither start the next worker after a lifetime nor end after its scheduler.
    if parent_process():
        atexit.register(os._exit, 0)


def unfit(task: Task, worker: Any) -> str | None:
    """Return why this worker must not render, because an image may not depend on its worker; None if it may."""
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
