"""The render farm: hands shard jobs to the workers of a dask.distributed cluster and enters what they finish.

By default the cluster is embedded: worker processes under nannies on this machine, reachable on loopback only. A dead
worker is replaced by its nanny and its shard rendered again; a stuck one is noticed here, because a busy worker tells
of every image, and restarted.
"""

import errno
import logging
import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.jobs import render_shard
from ident3d.loaders.folder import Job
from ident3d.loaders.manifest import Entry
from ident3d.processors import cores as cores

try:
    import dask
    from distributed import Client, Future, LocalCluster, get_worker
except ImportError as error:
    raise UserError("Rendering needs dask.distributed: pip install 'ident3d[render]'.") from error

TOPIC = "ident3d"
RETRIES = 2
STALL_SECONDS = 300.0  # without a finished image; the slowest preset needs under a minute for one on a slow core

# one shard at a time on each worker; the others wait at the scheduler, so that a death costs one job at most
DASK_SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": RETRIES,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.admin.log-format": "%(message)s",
}


@dataclass(frozen=True)
class Failure:
    """A job that was given up, and why."""

    job: Job
    reason: str


@contextmanager
def embedded_cluster(workers: int) -> Iterator[Client]:
    """A cluster of `workers` single-threaded processes on this machine, open on loopback only."""
    with dask.config.set(DASK_SETTINGS), quiet():
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit="auto",
            silence_logs=logging.CRITICAL,
        )
        client = Client(cluster, set_as_default=False)
        try:
            yield client
        finally:
            kill_workers(cluster)
            client.close(timeout=2)
            cluster.close(timeout=2)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Dask's own remarks off the terminal: a killed worker makes many, and what matters is told by us."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def kill_workers(cluster: LocalCluster) -> None:
    """End the worker processes at once: a shard in the making is worth nothing, and Blender does not listen."""
    for nanny in cluster.workers.values():
        process = getattr(nanny, "process", None)
        pid = process and process.pid
        if pid:
            nanny.auto_restart = False
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue


def work(folder: str, settings: dict[str, Any], job: Job, threads: int) -> Entry:
    """Runs on a worker: render the job's shard, telling the client of every image."""
    worker = get_worker()
    name = worker.name if isinstance(worker.name, int) else 0

    def on_image(done: int) -> None:
        worker.log_event(TOPIC, {"worker": worker.address, "first": job.first, "done": done})

    on_image(0)
    return render_shard(Path(folder), settings, job, threads, gpu_index=name, on_image=on_image)


def run_jobs(
    client: Client,
    jobs: Sequence[Job],
    folder: Path,
    settings: dict[str, Any],
    *,
    threads: int,
    on_entry: Callable[[Entry], None],
    on_images: Callable[[int], object],
    on_failure: Callable[[Failure], object] = lambda failure: None,
    stall_seconds: float = STALL_SECONDS,
) -> list[Failure]:
    """Run every job; returns those given up after RETRIES more attempts.

    `on_entry` gets each finished shard, `on_failure` each job given up, `on_images` the change in the number of images
    done (negative where a lost worker's images must be rendered again). A full disk or a user's mistake ends the run.
    """
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    client.subscribe_topic(TOPIC, lambda event: messages.put(event[1]))
    waiting, failures = list(reversed(jobs)), list[Failure]()
    running, done = dict[Future[Entry], Job](), dict[int, int]()  # done: first image of a running job -> images done
    sign_of_life: dict[str, tuple[float, int]] = {}  # worker -> time of its last sign, and its job's first image
    width = 2 * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    try:
        while waiting or running:
            while waiting and len(running) < width:
                job = waiting.pop()
                future = client.submit(work, str(folder), settings, job, threads, retries=RETRIES, pure=False)
                running[future], done[job.first] = job, 0
                future.add_done_callback(messages.put)
            try:
                message = messages.get(timeout=1.0)
            except queue.Empty:
                restart_stalled(client, sign_of_life, stall_seconds)
                continue
            if isinstance(message, Future):
                job = running.pop(message)
                told = done.pop(job.first)
                sign_of_life = {w: sign for w, sign in sign_of_life.items() if sign[1] != job.first}
                if message.status == "finished":
                    on_entry(message.result())
                    on_images(job.count - told)
                else:
                    error = message.exception()
                    stop_if_hopeless(error, folder)
                    failures.append(Failure(job, f"{type(error).__name__}: {error}"))
                    on_failure(failures[-1])
                    on_images(-told)
            elif message["first"] in done:  # not an echo of a job that has ended
                on_images(message["done"] - done[message["first"]])
                done[message["first"]] = message["done"]
                sign_of_life[message["worker"]] = (time.monotonic(), message["first"])
    finally:
        client.unsubscribe_topic(TOPIC)
    return failures


def restart_stalled(client: Client, sign_of_life: dict[str, tuple[float, int]], stall_seconds: float) -> None:
    """Restart the workers that began a job and then gave no sign for too long; the scheduler hands their jobs on."""
    now = time.monotonic()
    for worker in [worker for worker, (last, _) in sign_of_life.items() if now - last > stall_seconds]:
        del sign_of_life[worker]
        if worker in client.scheduler_info(n_workers=-1)["workers"]:
            client.restart_workers([worker], timeout=30, raise_for_error=False)


def stop_if_hopeless(error: BaseException | None, folder: Path) -> None:
    """A full disk, or a mistake that every other job would meet too, ends the run with one sentence."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise UserError(f"The disk of {folder} is full; free some space and run the same command again.")
    if isinstance(error, UserError):
        raise error
