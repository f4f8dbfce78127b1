"""The render farm: hands shard jobs to the workers of a dask.distributed cluster and enters what they finish.

A worker that dies is replaced and its shard rendered again; that is Dask's doing. One that hangs is noticed here,
because a busy worker tells of every image, and restarted.
"""

import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Client, Future, get_worker

from ident3d.cluster import RETRIES
from ident3d.errors import UserError
from ident3d.jobs import render_shard
from ident3d.loaders.files import FULL
from ident3d.loaders.making import Job
from ident3d.loaders.manifest import Entry
from ident3d.loaders.publishing import workplace
from ident3d.loaders.stores import Store, place

TOPIC = "ident3d"
STALL_SECONDS = 300.0  # without a finished image of 224 pixels; the slowest preset needs half a minute on a busy core
HOPELESS_FAILURES = 3  # so many shards failed and none finished: the others would fail too


@dataclass(frozen=True)
class Failure:
    """A job that was given up, and why."""

    job: Job
    reason: str


@dataclass(frozen=True)
class Hopeless:
    """What a worker returns instead of an entry where trying again, or another job, would meet the same."""

    sentence: str


def work(folder: str, settings: dict[str, Any], job: Job, threads: int) -> Entry | Hopeless:
    """Runs on a worker: render the job's shard, telling the client of every image."""
    worker = get_worker()
    gpu_index = worker.name if isinstance(worker.name, int) else 0

    def on_image(done: int) -> None:
        worker.log_event(TOPIC, {"worker": worker.address, "first": job.first, "done": done})

    try:
        with workplace(place(folder), settings, job) as path:
            return render_shard(path, settings, job, threads, gpu_index, on_image)
    except UserError as error:
        return Hopeless(str(error))
    except ImportError as error:
        return Hopeless(f"Blender cannot be loaded ({error}); `ident3d doctor` says what is missing.")
    except OSError as error:
        if error.errno in FULL:
            return Hopeless(f"The disk of {folder} is full; free some space and run the same command again.")
        raise


@dataclass
class Watch:
    """What is known of the jobs at work: images done of each, and each worker's last sign of life."""

    stall_seconds: float
    done: dict[int, int] = field(default_factory=dict)  # first image of a running job -> images done
    last_sign: dict[str, tuple[float, int]] = field(default_factory=dict)  # worker -> time, first image of its job
    last_message: float = field(default_factory=time.monotonic)
    checked: float = field(default_factory=time.monotonic)

    def hear(self, message: dict[str, Any]) -> int:
        """Take a worker's word on a running job; the change in the number of images done."""
        self.last_message = time.monotonic()
        first = message["first"]
        if first not in self.done:
            return 0  # an echo of a job that has ended
        self.last_sign[message["worker"]] = (self.last_message, first)
        change: int = message["done"] - self.done[first]
        self.done[first] = message["done"]
        return change

    def end(self, job: Job) -> int:
        """Forget a job that has ended; how many of its images were counted."""
        self.last_message = time.monotonic()
        self.last_sign = {worker: sign for worker, sign in self.last_sign.items() if sign[1] != job.first}
        return self.done.pop(job.first)

    def check(self, client: Client) -> None:
        """Once a second: restart workers that hang, so that their jobs go to others; give up if nobody works at all."""
        now = time.monotonic()
        if now - self.checked < 1:
            return
        self.checked = now
        for worker in [worker for worker, (last, _) in self.last_sign.items() if now - last > self.stall_seconds]:
            del self.last_sign[worker]
            self.last_message = now
            if worker in client.scheduler_info(n_workers=-1)["workers"]:
                client.restart_workers([worker], timeout=30, raise_for_error=False)
        if self.done and not self.last_sign and now - self.last_message > self.stall_seconds:
            raise UserError(f"No worker has taken up a job for {self.stall_seconds:.0f} seconds.")


def run_jobs(
    client: Client,
    jobs: Sequence[Job],
    folder: Path | Store,
    settings: dict[str, Any],
    *,
    threads: int,
    on_entry: Callable[[Entry], object],
    on_images: Callable[[int], object] = lambda change: None,
    on_failure: Callable[[Failure], object] = lambda failure: None,
    stall_seconds: float | None = None,
) -> None:
    """Run every job, trying each RETRIES more times.

    `on_entry` gets each finished shard, `on_failure` each job given up, `on_images` the change in the number of images
    done (negative where a lost worker's images must be rendered again). A full disk or a user's mistake ends the run.
    """
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    client.subscribe_topic(TOPIC, lambda event: messages.put(event[1]))
    waiting, running = list(reversed(jobs)), dict[Future[Entry | Hopeless], Job]()
    watch = Watch(stall_seconds or STALL_SECONDS * max(1, (settings["size"] / 224) ** 2))
    width = 2 * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    finished = failed = 0
    try:
        while waiting or running:
            while waiting and len(running) < width:
                job = waiting.pop()
                future = client.submit(work, str(folder), settings, job, threads, retries=RETRIES, pure=False)
                running[future], watch.done[job.first] = job, job.already
                future.add_done_callback(messages.put)
            watch.check(client)
            try:
                message = messages.get(timeout=1.0)
            except queue.Empty:
                continue
            if not isinstance(message, Future):
                on_images(watch.hear(message))
                continue
            job = running.pop(message)
            told = watch.end(job)
            if message.status == "finished":
                result = message.result()
                if isinstance(result, Hopeless):
                    raise UserError(result.sentence)
                finished += 1
                on_entry(result)
                on_images(job.count - told)
            else:
                failure = Failure(job, describe(message.exception()))
                failed += 1
                on_failure(failure)
                on_images(job.already - told)
                if failed >= HOPELESS_FAILURES and not finished:
                    raise UserError(f"The first {failed} shards all failed, the last one so: {failure.reason}")
    finally:
        client.cancel(list(running))
        client.unsubscribe_topic(TOPIC)


def describe(error: BaseException | None) -> str:
    """An exception in one line: its type and the first line of what it says."""
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
