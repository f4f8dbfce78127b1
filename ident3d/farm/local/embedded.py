"""``embedded_cluster``: a scheduler in this process, and workers that are processes of this machine."""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import current_process
from pathlib import Path
from types import FrameType
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from ident3d.errors import UserError
from ident3d.farm.batch.run_folder import run_folder, temporary_folder
from ident3d.farm.local.dask_settings import DASK_SETTINGS, GPU, quiet, reason_of
from ident3d.farm.local.keeper import Keeper
from ident3d.farm.local.limits import check_limits


@contextmanager
def embedded_cluster(workers: int) -> Iterator[Client]:
    """Yield a client of a cluster of `workers` single-threaded processes on this machine."""
    check_limits(workers)
    # A scheduler runs any code that is sent to it, and every user of a machine can reach its loopback. So the cluster
    # listens on loopback only, and only to holders of the key that is made for this run.
    with dask.config.set(DASK_SETTINGS), private_names() as folder, quiet(), hidden_main():
        closing: list[Any] = []
        keeper = None
        try:
            with deferred_interrupts():
                cluster = LocalCluster(
                    n_workers=0,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    security=Security.temporary(),
                    memory_limit=MEMORY_LIMIT // workers,
                    resources={GPU: 1},
                    # Blender makes a folder there, and a worker that is killed just then does not remove it.
                    env={"TMPDIR": str(folder)},
                    silence_logs=logging.CRITICAL,
                )
                closing.append(cluster)
                keeper = Keeper(cluster, workers)
                keeper.start()
                # By its address: with the cluster itself the client would start workers that are missing, and fail
                # if one of them does.
                address, security = cluster.scheduler_address, cluster.security
                closing.insert(0, Client(address, security=security, set_as_default=False))
            yield closing[0]
        except Exception as error:
            if keeper and keeper.failure:
                raise UserError(keeper.failure) from None
            if len(closing) < 2:
                raise UserError(f"The worker processes cannot be started ({reason_of(error)}).") from None
            raise
        finally:
            # The workers go first: client and cluster would wait for them to finish.
            if keeper:
                keeper.stop()
            for each in closing:
                with suppress(TimeoutError):
                    each.close(timeout=2)


@contextmanager
def private_names() -> Iterator[Path]:
    """Yield a folder for the run's scratch files; give its semaphores names that begin with the folder's.

    If this run is killed, the next one removes both.
    """
    # Dask's own choice is a fixed name in the temporary folder, which may belong to another user, and it imports Python
    # files from there. Its names of semaphores are random, so no later run could tell whose they were.
    config: dict[str, Any] = current_process()._config  # type: ignore[attr-defined]
    before = config["semprefix"]
    with run_folder(temporary_folder()) as folder, dask.config.set({"temporary-directory": str(folder)}):
        config["semprefix"] = f"/{folder.name}"
        try:
            yield folder
        finally:
            config["semprefix"] = before


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
