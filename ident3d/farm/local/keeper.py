"""Keep the worker processes of an embedded cluster running, however they die."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from distributed import Status

from ident3d.errors import UserError
from ident3d.farm.local.dask_settings import reason_of

# The time between two looks at the workers. It is longer than a nanny takes to begin another process.
LOOK_SECONDS = 1.0
# The run is given up if so many rounds of starts fail one after another, with no worker there.
ROUNDS = 3
ENDED = {Status.closing, Status.closed, Status.failed}


@dataclass
class Keeper:
    """The workers of one cluster. A nanny restarts its worker, but gives up if that dies while it starts."""

    cluster: Any  # a LocalCluster
    workers: int
    failed: int = 0  # starts since a worker was last there
    failure: str = ""  # why the run was given up
    reason: str = ""  # of the last start that failed
    without_process: set[Any] = field(default_factory=set)  # nannies that had no process at the last look
    stopped: bool = False

    def start(self) -> None:
        """Start the workers, and keep them until `stop`. Raise UserError if none can be started."""
        self.cluster.scale(self.workers)
        while not self.cluster.sync(self.replace):
            if self.failure:
                raise UserError(self.failure)
        self.cluster.loop.add_callback(self.keep)

    async def keep(self) -> None:
        """Look after the workers again and again. If none can be started, close the scheduler, which ends the run."""
        while not self.stopped and not self.failure:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.stopped:
                await self.replace()
        if self.failure:
            await self.cluster.scheduler.close(reason="no worker")

    async def replace(self) -> bool:
        """Start a worker in place of each that its nanny has given up; return whether any worker is there."""
        nannies = self.cluster.workers
        # A worker that dies at the moment at which its start ends is missed by its nanny, which then waits without end.
        idle = {nanny for nanny in nannies.values() if nanny.status == Status.running and not nanny.is_alive()}
        lost = self.without_process & idle
        self.without_process = idle - lost
        for name, nanny in list(nannies.items()):
            if nanny in lost:
                await nanny.close()
            if nanny.status in ENDED:
                del nannies[name]
        try:
            await self.cluster._correct_state()
        except Exception as error:
            # Dask raises a RuntimeError around whatever it met: a signal, no descriptors, no semaphores.
            self.reason = reason_of(error)
        started = [nanny.status not in ENDED for nanny in nannies.values()]
        self.failed = 0 if any(started) else self.failed + len(started)
        if self.failed >= ROUNDS * self.workers:
            self.failure = f"No worker process could be started in {self.failed} attempts ({self.reason})."
        return any(started)

    def stop(self) -> None:
        """Kill the worker processes at once: an unfinished shard is worth nothing, and Blender does not stop."""
        self.stopped = True
        # Among those that Dask has created are nannies that are starting just now.
        for nanny in list(self.cluster._created):
            if nanny.status in ENDED:
                continue
            nanny.close_gracefully()
            process = getattr(nanny, "process", None)
            if pid := process and process.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
