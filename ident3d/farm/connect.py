"""Connections to Dask: the embedded cluster of this machine's processes, a batch system's, or a running scheduler."""

import asyncio
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
from ident3d.farm.batch.systems import batch_cluster
from ident3d.farm.cluster import Cluster, warning_for

try:
    import dask
    from distributed import Client, LocalCluster
    from distributed.core import rpc
    from distributed.security import Security
    from distributed.utils import LoopRunner
except ImportError as error:
    raise UserError("Rendering needs dask.distributed: pip install 'ident3d[render]'.") from error

CONNECT_SECONDS = 10
# A worker may die for reasons that have nothing to do with its shard, so each shard is tried again.
RETRIES = 2
# The resource that a job on a GPU asks of its worker.
GPU = "GPU"

# A worker gets one shard at a time, and the others wait at the scheduler: a worker that dies costs one shard at most.
# Worker processes are renewed every 12 hours, at different times; each renewal repeats one shard at most.
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


@contextmanager
def connected(cluster: Cluster, workers: int) -> Iterator[Client]:
    """Yield a client of the cluster. An embedded cluster starts with `workers` workers."""
    if cluster.is_local:
        with embedded_cluster(workers) as client:
            yield client
        return
    with dask.config.set(DASK_SETTINGS), quiet():
        if cluster.system:
            with batch_cluster(cluster.system, cluster.jobs or 1, cluster.options) as own, client_of(own) as client:
                yield client
        else:
            address = cluster.address()
            if risk := warning_for(address):
                warnings.warn(risk, stacklevel=3)
            with client_of(address, cluster.security()) as client:
                yield client


def reach(cluster: Cluster) -> None:
    """Raise UserError unless the cluster's scheduler answers, if it has one already; nothing is started."""
    if cluster.scheduler is not None:
        with quiet():
            check_answer(cluster.address(), cluster.security())


@contextmanager
def client_of(address: Any, security: Security | None = None) -> Iterator[Client]:
    """Yield a client of the scheduler. At the end it withdraws its own jobs and leaves all others alone."""
    if isinstance(address, str):
        check_answer(address, security)
    try:
        client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False, name="ident3d")
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise no_answer(address, error) from None
    try:
        yield client
    finally:
        with suppress(TimeoutError, OSError):
            client.close(timeout=5)


def check_answer(address: str, security: Security | None) -> None:
    """Raise UserError unless a scheduler answers at the address: a client that cannot connect leaves threads behind."""

    async def kind() -> str:
        connection = security.get_connection_args("client") if security else {}
        there = rpc(address, timeout=CONNECT_SECONDS, connection_args=connection)
        async with asyncio.timeout(2 * CONNECT_SECONDS), there:
            return str((await there.identity())["type"])

    try:
        found = LoopRunner().run_sync(kind)
    except Exception as error:
        # Some other program may listen at the address, and answer anything.
        raise no_answer(address, error) from None
    if found != "Scheduler":
        raise UserError(f"At {address} is a Dask {found.lower()}, not a scheduler.")


def no_answer(address: Any, error: Exception) -> UserError:
    """Return the error for a scheduler that does not answer, with the innermost reason that has a text."""
    place = address if isinstance(address, str) else "the new cluster"
    reasons: list[BaseException] = [error]
    while cause := reasons[-1].__cause__ or reasons[-1].__context__:
        reasons.append(cause)
    reason = next((text for reason in reversed(reasons) if (text := str(reason).partition("\n")[0])), repr(error))
    return UserError(f"No Dask scheduler answers at {place} ({reason}).")


@contextmanager
def embedded_cluster(workers: int) -> Iterator[Client]:
    """Yield a client of a cluster of `workers` single-threaded processes on this machine."""
    # A scheduler runs any code that is sent to it, and every user of a machine can reach its loopback. So the cluster
    # listens on loopback only, and only to holders of the key that is made for this run.
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
            # The workers go first: client and cluster would wait for them to finish.
            kill_workers(cluster)
            for closing in (*clients, cluster):
                with suppress(TimeoutError):
                    closing.close(timeout=2)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Dask's own log off the terminal: a killed worker fills it, and the farm reports what matters itself."""
    # Dask sets a level for each of its loggers. Errors in its loop's callbacks go to Tornado's logger.
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
    """Keep spawned workers from importing the calling script, which may have no ``__name__`` guard."""
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
    """Deliver Ctrl-C and SIGTERM only at the end: a cluster that has started only in part cannot be closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        received.append(number)

    # SIGINT is also blocked, and stays blocked in the threads and processes that start meanwhile: a terminal sends
    # Ctrl-C to the workers too, where it would only fill the screen.
    before = {number: signal.signal(number, keep) for number in (signal.SIGINT, signal.SIGTERM)}
    # The start of the tracker unblocks SIGINT, so it comes before the mask.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def kill_workers(cluster: LocalCluster) -> None:
    """Kill the worker processes at once: an unfinished shard is worth nothing, and Blender ignores requests to stop."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        process = getattr(nanny, "process", None)
        pid = process and process.pid
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
