"""``run_jobs``: hands shard jobs to the workers of a Dask cluster and yields an event for all that happens.

If a worker dies, Dask replaces it and its shard is rendered again. If a worker hangs, the watchdog restarts it: a busy
worker reports its images, and one that hangs does not.
"""

import pickle
import queue
import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker
from distributed.comm.core import CommClosedError

from ident3d.blender_scenes.scene_files import SceneFile
from ident3d.errors import UserError
from ident3d.farm.local.dask_settings import GPU, RETRIES
from ident3d.farm.render_shard import RecordedSettings, StudioOf, warm_studio
from ident3d.farm.watchdog import STALL_SECONDS, Watch
from ident3d.farm.worker import WORK, FatalForRun, FatalForShard, ShardDone, Task
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.stores.store import Store

# The time between two reports of a worker on its images.
REPORT_SECONDS = 0.5
# A worker hands over what it has finished within this time. Later, another worker finds the shard on disk.
RESULT_SECONDS = 10.0

# A shard is given up after so many deaths of workers with it, because the shard may kill them. The run is given up
# after so many deaths, or so many failed shards, if none was finished: the others would fail as well.
DEATHS_PER_SHARD = 6
DEATHS_PER_RUN = 9
FAILURES_PER_RUN = 3
# What ends a process without an exception.
ENDS = "too little memory or the scene's own code may do that; workers of a cluster have logs"


@dataclass(frozen=True)
class ImagesDone:
    """So many more images are done; fewer, if a lost worker's images must be rendered again."""

    change: int


@dataclass(frozen=True)
class JobFailed:
    """A job was given up."""

    job: Job
    reason: str


@dataclass(frozen=True)
class Note:
    """Something that the user should know."""

    text: str


Event = ShardDone | ImagesDone | JobFailed | Note
Answer = ShardDone | FatalForShard | FatalForRun  # of a worker


@dataclass
class FailureCount:
    """What went wrong so far: workers that died with a job, and jobs given up."""

    finished: int = 0
    failed: int = 0
    deaths: Counter[Job] = field(default_factory=Counter)

    def should_retry(self, job: Job, error: BaseException | FatalForShard) -> bool:
        """Return whether to try the job again. Raise UserError if workers only die."""
        if not isinstance(error, KilledWorker):
            return False
        self.deaths[job] += error.allowed_failures + 1
        if not self.finished and self.deaths.total() >= DEATHS_PER_RUN:
            raise UserError(f"Worker processes ended {self.deaths.total()} times and no shard was finished: {ENDS}.")
        return self.deaths[job] < DEATHS_PER_SHARD

    def reason(self, job: Job, error: BaseException | FatalForShard) -> str:
        """Return in one line why the job is given up."""
        # Dask's own sentence names a task and an address, which tell the user nothing.
        is_death = isinstance(error, KilledWorker)
        return f"its worker process ended {self.deaths[job]} times: {ENDS}" if is_death else describe(error)

    def add(self, failure: JobFailed) -> None:
        """Count a job that was given up. Raise UserError if the first ones all were."""
        self.failed += 1
        if self.failed >= FAILURES_PER_RUN and not self.finished:
            raise UserError(f"The first {self.failed} shards all failed; reason of the last one: {failure.reason}")


def run_jobs(
    client: Client,
    jobs: Sequence[Job],
    folder: Path | Store,
    settings: RecordedSettings,
    *,
    threads: int,
    stall_seconds: float | None = None,
    wait_forever: bool = False,
    report_seconds: float = REPORT_SECONDS,
    studio_of: StudioOf = warm_studio,
    files: tuple[SceneFile, ...] = (),
) -> Generator[Event, None, None]:
    """Run every job, trying each RETRIES more times, and yield what happens.

    The caller enters each shard of a ShardDone in the manifest before it asks for the next event. A full disk, a
    user's mistake or the loss of the scheduler ends the run with a UserError. With `wait_forever` a run without
    workers waits for some, as long as it takes. A caller that stops early closes the generator, which then withdraws
    the jobs.
    """
    where = folder if isinstance(folder, Store) else folder.absolute()
    task = Task(str(where), settings, threads, f"ident3d-{uuid.uuid4()}", report_seconds, studio_of, files)
    on_gpu = settings["device"] != "cpu"
    stall_seconds = stall_seconds or STALL_SECONDS * max(1, (settings["size"] / 224) ** 2)
    watch, failures = Watch(client, stall_seconds, wait_forever, on_gpu), FailureCount()
    # Dask calls back from its own thread. One queue takes both kinds of messages, so that this thread alone decides.
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    client.subscribe_topic(task.topic, lambda event: messages.put(event[1]))
    waiting, running = list(reversed(jobs)), dict[Future[Answer], Job]()
    try:
        while waiting or running:
            # With two jobs a worker never waits for one. The others stay here, so that the scheduler's memory does not
            # grow with the dataset.
            while waiting and len(running) < 2 * max(1, watch.workers):
                job = waiting.pop()
                future = submit(client, task, job, on_gpu)
                running[future], watch.done[job.first] = job, job.already
                future.add_done_callback(messages.put)
            watch.poll([str(future.key) for future in running])
            while watch.notes:
                yield Note(watch.notes.pop(0))
            try:
                message = messages.get(timeout=1.0)
            except queue.Empty:
                continue
            if not isinstance(message, Future):
                yield ImagesDone(watch.count_images(message))
            elif message in running:
                if message.status == "cancelled":
                    raise UserError(watch.scheduler_lost())
                job = running.pop(message)
                counted, result = watch.end(job), outcome(message)
                if isinstance(result, ShardDone):
                    failures.finished += 1
                    yield result
                    yield ImagesDone(job.count - counted)
                    continue
                yield ImagesDone(job.already - counted)
                # A job without an answer costs no try: its worker is to blame, and the shard may be on disk.
                if result is None or failures.should_retry(job, result):
                    waiting.append(job)
                    continue
                failure = JobFailed(job, failures.reason(job, result))
                yield failure
                failures.add(failure)
    except CommClosedError:
        # It is an OSError, and what asks for a job's result raises it if the scheduler is gone in that moment.
        raise UserError(watch.scheduler_lost()) from None
    finally:
        for future in running:
            future.release()
        if client.status == "running":
            client.unsubscribe_topic(task.topic)


def submit(client: Client, task: Task, job: Job, on_gpu: bool) -> "Future[Answer]":
    """Hand the job to the scheduler. A job on a GPU goes only to a worker that has one."""
    # A key of its own for each try: the scheduler would answer a known key with the old failure.
    key, names = f"ident3d-{uuid.uuid4().hex}", {"job": pickle.dumps((task, job))}
    return client.submit(eval, WORK, names, key=key, retries=RETRIES, resources={GPU: 1} if on_gpu else {})


def outcome(future: "Future[Answer]") -> ShardDone | FatalForShard | BaseException | None:
    """Return what became of a job: its shard, why it failed, or None if the worker died or hangs with its result.

    Raise UserError if another try, or another job, would meet the same.
    """
    if future.status == "finished":
        try:
            result = future.result(timeout=RESULT_SECONDS)
        except (TimeoutError, CancelledError):
            return None
        if isinstance(result, FatalForRun):
            raise UserError(result.reason)
        return result
    error: BaseException = future.exception()
    if isinstance(error, ImportError):
        raise UserError(f"A worker cannot load ident3d ({error}); install the same version there.")
    return error


def describe(error: BaseException | FatalForShard | None) -> str:
    """Return why a job failed in one line: of an exception its type and the first line of its message."""
    if isinstance(error, FatalForShard):
        return error.reason
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
