"""Where the farm's workers are: the embedded cluster, made of this machine's processes, or one that is elsewhere."""

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any

from ident3d.errors import UserError
from ident3d.farm.batch_systems import batch_cluster
from ident3d.farm.scheduler import Cluster, check_answer, client_of, security_of, warning_for

try:
    import dask
    from distributed import Client, LocalCluster
    from distributed.security import Security
except ImportError as error:
    raise UserError("Rendering needs dask.distributed: pip install 'ident3d[render]'.") from error

RETRIES = 2

# one shard at a time on each worker; the others wait at the scheduler, so that a death costs one job at most
DASK_SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.allowed-failures": RETRIES,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.pause": False,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.worker.lifetime.duration": "12 hours",
    "distributed.worker.lifetime.stagger": "2 hours",
    "distributed.worker.lifetime.restart": True,
}
GPU = "GPU"  # the resource that a job on a GPU asks of its worker


@contextmanager
def connected(cluster: Cluster, workers: int) -> Iterator[Client]:
    """A client of the cluster; the embedded one is begun with so many workers."""
    if cluster.here:
        with embedded_cluster(workers) as client:
            yield client
        return
    with dask.config.set(DASK_SETTINGS), quiet():
        if cluster.system:
            with batch_cluster(cluster.system, cluster.jobs or 1, cluster.options) as begun, client_of(begun) as client:
                yield client
        else:
            address = cluster.address()
            if risk := warning_for(address):
                warnings.warn(risk, stacklevel=3)
            with client_of(address, security_of(cluster)) as client:
                yield client


def reach(cluster: Cluster) -> None:
    """One sentence unless the scheduler that is said to be there answers; nothing is begun."""
    if cluster.scheduler is not None:
        with quiet():
            check_answer(cluster.address(), security_of(cluster))


@contextmanager
def embedded_cluster(workers: int) -> Iterator[Client]:
    """A cluster of `workers` single-threaded processes on this machine.

    It listens on loopback only, and only to those who hold the key made for this run: a scheduler runs whatever code is
    sent to it, and loopback belongs to every user of a machine.
    """
    with dask.config.set(DASK_SETTINGS), quiet(), hidden_main():
        with deferred_interrupts():
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                security=Security.temporary(),
                resources={GPU: 1},
                silence_logs=logging.CRITICAL,
            )
        clients: list[Any] = []
        try:
            clients.append(Client(cluster, set_as_default=False))
            yield clients[0]
        finally:
            kill_workers(cluster)
            for closing in (*clients, cluster):
                with suppress(TimeoutError):
                    closing.close(timeout=2)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Dask's own remarks off the terminal: a killed worker makes many, and what matters is told by us.

    Dask gives each of its loggers a level of its own, and what fails in its loop's callbacks is told by Tornado's.
    """
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "tornado.application")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def hidden_main() -> Iterator[None]:
    """Let spawned workers import nothing of the script that called us: it may have no ``__name__`` guard."""
    main = sys.modules["__main__"]
    kept: dict[str, Any] = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    main.__spec__ = None
    try:
        yield
    finally:
        del main.__spec__
        main.__dict__.update(kept)


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Hear Ctrl-C and SIGTERM only at the end: a cluster that is half begun cannot be closed.

    SIGINT is blocked meanwhile, and so for good in the threads and processes begun meanwhile: a terminal sends Ctrl-C
    to the workers too, where it would only make noise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    resource_tracker.ensure_running()  # now, because starting it unblocks SIGINT
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for number, handler in before.items():
            signal.signal(number, handler)
        if heard:
            signal.raise_signal(heard[0])


def kill_workers(cluster: LocalCluster) -> None:
    """End the worker processes at once: a shard in the making is worth nothing, and Blender does not listen."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        process = getattr(nanny, "process", None)
        pid = process and process.pid
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
