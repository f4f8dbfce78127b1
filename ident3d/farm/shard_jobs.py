"""The render farm: hands shard jobs to the workers of a Dask cluster and enters what they finish.

A worker that dies is replaced and its shard rendered again; that is Dask's doing. One that hangs is noticed here,
because a busy worker tells of its images, and restarted.
"""

import pickle
import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker

from ident3d.errors import UserError
from ident3d.farm.connect import GPU, RETRIES
from ident3d.farm.render_shard import Settings, StudioOf, warm_studio
from ident3d.farm.watchdog import STALL_SECONDS, Watch
from ident3d.farm.worker import WORK, Finished, Hopeless, Task
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.format.files import FULL
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.stores.store import Store

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


@dataclass
class Losses:
    """What went wrong so far: workers that died at a job, and jobs given up."""

    finished: int = 0
    failed: int = 0
    deaths: Counter[Job] = field(default_factory=Counter)

    def forgives(self, job: Job, error: BaseException) -> bool:
        """Whether the job is tried again: workers may die of other reasons. Ends the run if all of them do."""
        if not isinstance(error, KilledWorker):
            return False
        self.deaths[job] += error.allowed_failures + 1
        if not self.finished and self.deaths.total() >= HOPELESS_DEATHS:
            raise UserError(f"{self.deaths.total()} workers died and no shard was finished; see their logs.")
        return self.deaths[job] < DEATHS

    def add(self, failure: Failure) -> None:
        """Count a job that was given up. Ends the run if the first ones all are."""
        self.failed += 1
        if self.failed >= HOPELESS_FAILURES and not self.finished:
            raise UserError(f"The first {self.failed} shards all failed, the last one so: {failure.reason}")


def run_jobs(
    client: Client,
    jobs: Sequence[Job],
    folder: Path | Store,
    settings: Settings,
    *,
    threads: int,
    on_entry: Callable[[ShardEntry], object],
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
    where = folder if isinstance(folder, Store) else folder.absolute()
    task = Task(str(where), settings, threads, f"ident3d-{uuid.uuid4()}", tell_seconds, studio_of)
    on_gpu = settings["device"] not in ("cpu", "none")
    stall_seconds = stall_seconds or STALL_SECONDS * max(1, (settings["size"] / 224) ** 2)
    watch, losses = Watch(client, stall_seconds, patient, on_note, on_gpu), Losses()
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    client.subscribe_topic(task.topic, lambda event: messages.put(event[1]))
    waiting, running = list(reversed(jobs)), dict[Future[Finished | Hopeless], Job]()
    try:
        while waiting or running:
            while waiting and len(running) < 2 * max(1, watch.workers):
                job = waiting.pop()
                future = submitted(client, task, job, on_gpu)
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
            told, result = watch.end(job), outcome(message)
            if isinstance(result, Finished):
                losses.finished += 1
                on_host(result.host)
                enter_in_time(result.entry, on_entry, on_note)
                on_images(job.count - told)
                continue
            on_images(job.already - told)
            if result is None or losses.forgives(job, result):
                waiting.append(job)
                continue
            failure = Failure(job, describe(result))
            on_failure(failure)
            losses.add(failure)
    finally:
        for future in running:
            future.release()
        if client.status == "running":
            client.unsubscribe_topic(task.topic)


def submitted(client: Client, task: Task, job: Job, on_gpu: bool) -> "Future[Finished | Hopeless]":
    """The job, handed to the scheduler; one on a GPU goes only to a worker that has one."""
    key, names = f"ident3d-{uuid.uuid4().hex}", {"job": pickle.dumps((task, job))}
    return client.submit(eval, WORK, names, key=key, retries=RETRIES, resources={GPU: 1} if on_gpu else {})


def outcome(future: "Future[Finished | Hopeless]") -> Finished | BaseException | None:
    """What became of a job: its shard, why it failed, or None if the worker died, or hangs, with its word unheard.

    Ends the run where trying again, or another job, would meet the same.
    """
    if future.status == "finished":
        try:
            result = future.result(timeout=RESULT_SECONDS)
        except (TimeoutError, CancelledError):
            return None
        if isinstance(result, Hopeless):
            raise UserError(result.sentence)
        return result
    error: BaseException = future.exception()
    if isinstance(error, ImportError):
        raise UserError(f"A worker cannot load ident3d ({error}); install the same version there.")
    return error


def enter_in_time(
    entry: ShardEntry, on_entry: Callable[[ShardEntry], object], on_note: Callable[[str], object]
) -> None:
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
