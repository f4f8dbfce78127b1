"""Connections to Dask: the embedded cluster of this machine's processes, a batch system's, or a running scheduler."""

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ident3d.errors import UserError
from ident3d.farm.batch.systems import batch_cluster
from ident3d.farm.cluster import Cluster, warning_for
from ident3d.farm.local.dask_settings import DASK_SETTINGS, quiet, reason_of

try:
    import dask
    from distributed import Client
    from distributed.core import rpc
    from distributed.security import Security
    from distributed.utils import LoopRunner

    from ident3d.farm.local.embedded import embedded_cluster
except ImportError as error:
    raise UserError("Rendering needs dask.distributed: pip install 'ident3d[render]'.") from error

CONNECT_SECONDS = 10


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
    """Return the error for a scheduler that does not answer."""
    place = address if isinstance(address, str) else "the new cluster"
    return UserError(f"No Dask scheduler answers at {place} ({reason_of(error)}).")
