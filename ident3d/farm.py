"""The render farm: hands shard jobs to the workers of a Dask cluster and enters what they finish.

A worker that dies is replaced and its shard rendered again; that is Dask's doing. One that hangs is noticed here,
because a busy worker tells of its images, and restarted.
"""

import pickle
import queue
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker, get_worker

from ident3d.cluster import GPU, RETRIES
from ident3d.errors import UserError
from ident3d.jobs import Settings, StudioOf, differing_versions, render_shard, warm_studio
from ident3d.loaders.files import FULL
from ident3d.loaders.folder import is_dataset
from ident3d.loaders.making import Job
from ident3d.loaders.manifest import Entry
from ident3d.loaders.provenance import cpu_model
from ident3d.loaders.publishing import workplace
from ident3d.loaders.stores import Store, place
from ident3d.watch import STALL_SECONDS, Watch

TELL_SECONDS = 0.5  # between two words of a worker on its images
RESULT_SECONDS = 10.0  # in which a worker hands over what it has finished; another then finds the shard on disk
HOPELESS_FAILURES = 3  # so many shards failed and none finished: the others would fail too
DEATHS = 6  # a shard is given up when so many workers died with it: the fault may be theirs
HOPELESS_DEATHS = 9  # so many workers died and no shard was finished
ENTER_SECONDS = 60.0  # in which a finished shard must be entered: a network's trouble may pass
PAUSE_SECONDS = (1.0, 2.0, 5.0, 10.0)  # between attempts to enter it; the last goes on


@dataclass(frozen=True)
class Failure:
    """A job that was given up, and why."""

    job: Job
    reason: str


@dataclass(frozen=True)
class Finished:
    """What a worker returns of a shard that is safely on disk: its entry, and the host and processor that made it."""

    entry: Entry
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
WORK = "__import__('ident3d.farm', fromlist=['work']).work(job)"


def work(pickled: bytes) -> Finished | Hopeless:
    """Runs on a worker: render the shard of a (Task, Job), telling the client of its images about twice a second."""
    task, job = pickle.loads(pickled)
    worker = get_worker()
    key, told = worker.get_current_task(), 0.0
    if refusal := unfit(task, worker):
        return Hopeless(refusal)

    def on_image(done: int) -> None:
        nonlocal told
        known = worker.state.tasks.get(key)
        if known is None or known.state == "cancelled":
            raise Cancelled
        if time.monotonic() - told >= task.tell_seconds:
            told = time.monotonic()
            worker.log_event(task.topic, {"worker": worker.address, "first": job.first, "done": done})

    gpu_index = worker.name if isinstance(worker.name, int) else 0
    there = place(task.folder)
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
    there = place(task.folder)
    if isinstance(there, Path) and not is_dataset(there):
        return f"{who} does not see the folder {task.folder}; workers and client must share it under the same name."
    return None


def run_jobs(
    client: Client,
    jobs: Sequence[Job],
    folder: Path | Store,
    settings: Settings,
    *,
    threads: int,
    on_entry: Callable[[Entry], object],
    on_images: Callable[[int], object] = lambda change: None,
    on_failure: Callable[[Failure], object] = lambda failure: None,
    on_host: Callable[[str], object] = lambda host: None,
    on_note: Callable[[str], object] = lambda note: None,
    stall_seconds: float | None = None,
    patient: bool = False,
    tell_seconds: float = TELL_SECONDS,
    studio_of: StudioOf = warm_studio,
) -> None:
    """Run every job, trying each RETRIES more times.

    `on_entry` gets each finished shard, again for up to a minute where it raises an OSError, `on_host` the host that
    made it, `on_failure` each job given up, `on_images` the change in the number of images done (negative where a lost
    worker's images must be rendered again). A full disk, a user's mistake or the loss of the scheduler ends the run. A
    `patient` run waits for workers for as long as it takes.
    """
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    where = folder if isinstance(folder, Store) else folder.absolute()
    task = Task(str(where), settings, threads, f"ident3d-{uuid.uuid4()}", tell_seconds, studio_of)
    on_gpu = settings["device"] not in ("cpu", "none")
    stall_seconds = stall_seconds or STALL_SECONDS * max(1, (settings["size"] / 224) ** 2)
    watch = Watch(client, stall_seconds, patient, on_note, on_gpu)
    client.subscribe_topic(task.topic, lambda event: messages.put(event[1]))
    waiting, running = list(reversed(jobs)), dict[Future[Finished | Hopeless], Job]()
    resources = {GPU: 1} if on_gpu else {}
    deaths: Counter[Job] = Counter()
    finished = failed = 0
    try:
        while waiting or running:
            while waiting and len(running) < 2 * max(1, watch.workers):
                job = waiting.pop()
                key, names = f"ident3d-{uuid.uuid4().hex}", {"job": pickle.dumps((task, job))}
                future = client.submit(eval, WORK, names, key=key, retries=RETRIES, resources=resources)
                running[future], watch.done[job.first] = job, job.already
                future.add_done_callback(messages.put)
            watch.look([str(future.key) for future in running])
            try:
                message = messages.get(timeout=1.0)
            except queue.Empty:
                continue
            if not isinstance(message, Future):
                on_images(watch.hear(message))
                continue
            if message not in running:
                continue
            if message.status == "cancelled":
                raise UserError(watch.lost())
            job = running.pop(message)
            told = watch.end(job)
            if message.status == "finished":
                try:
                    result = message.result(timeout=RESULT_SECONDS)
                except (TimeoutError, CancelledError):  # the worker has died, or hangs, with its word unheard
                    on_images(job.already - told)
                    waiting.append(job)
                    continue
                if isinstance(result, Hopeless):
                    raise UserError(result.sentence)
                finished += 1
                on_host(result.host)
                enter_in_time(result.entry, on_entry, on_note)
                on_images(job.count - told)
                continue
            on_images(job.already - told)
            error = message.exception()
            if isinstance(error, ImportError):
                raise UserError(f"A worker cannot load ident3d ({error}); install the same version there.")
            if isinstance(error, KilledWorker):
                deaths[job] += error.allowed_failures + 1
                if not finished and deaths.total() >= HOPELESS_DEATHS:
                    raise UserError(f"{deaths.total()} workers died and no shard was finished; see their logs.")
                if deaths[job] < DEATHS:
                    waiting.append(job)
                    continue
            failure = Failure(job, describe(error))
            failed += 1
            on_failure(failure)
            if failed >= HOPELESS_FAILURES and not finished:
                raise UserError(f"The first {failed} shards all failed, the last one so: {failure.reason}")
    finally:
        for future in running:
            future.release()
        if client.status == "running":
            client.unsubscribe_topic(task.topic)


def enter_in_time(entry: Entry, on_entry: Callable[[Entry], object], on_note: Callable[[str], object]) -> None:
    """Have a finished shard entered: again after each OSError, for up to a minute, unless the disk is full.

    To enter a shard a second time does no harm: its line, or its object, is the same.
    """
    end = time.monotonic() + ENTER_SECONDS
    for attempt in count():
        pause = PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS) - 1)]
        try:
            on_entry(entry)
            return
        except OSError as error:
            if error.errno in FULL or time.monotonic() + pause > end:
                raise
            if not attempt:
                on_note(f"{entry.name} cannot be entered yet ({describe(error)}); it is tried again for a minute.")
        time.sleep(pause)


def describe(error: BaseException | None) -> str:
    """An exception in one line: its type and the first line of what it says."""
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
