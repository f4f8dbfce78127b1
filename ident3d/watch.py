"""What the farm knows of its jobs at work: who works on what, since when nothing was heard, and who is beyond hope."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from ident3d.errors import UserError
from ident3d.loaders.making import Job

STALL_SECONDS = 300.0  # without a finished image of 224 pixels; the slowest preset needs half a minute on a busy core
LOOK_SECONDS = 5.0  # between two looks at how many workers there are
SILENCE_SECONDS = 60.0  # after which a scheduler that does not answer counts as lost


@dataclass
class Watch:
    """Images done of each job at work, and each worker's last sign of life."""

    client: Client
    stall_seconds: float
    patient: bool  # the workers are not ours: that none is free is no failure
    on_note: Callable[[str], object]
    workers: int = 0
    done: dict[int, int] = field(default_factory=dict)  # first image of a running job -> images done
    last_sign: dict[str, tuple[float, int]] = field(default_factory=dict)  # worker -> time, first image of its job
    last_message: float = field(default_factory=time.monotonic)
    checked: float = field(default_factory=time.monotonic)
    looked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.workers = len(self.look())
        if not self.workers:
            self.on_note("The scheduler has no workers yet; the jobs wait for them.")

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

    def check(self) -> list[int]:
        """Once a second: restart workers that hang; the first images of the jobs to hand out anew.

        Gives up if the scheduler is gone, or if nobody works at all on a cluster that is ours.
        """
        now = time.monotonic()
        if now - self.checked < 1:
            return []
        self.checked = now
        if self.client.status != "running":
            raise UserError(self.lost())
        if now - self.looked > LOOK_SECONDS:
            self.looked, self.workers = now, len(self.look())
        orphaned = []
        for worker, (last, first) in list(self.last_sign.items()):
            if now - last > self.stall_seconds:
                del self.last_sign[worker]
                self.last_message = now
                orphaned += [] if self.restarted(worker) else [first]
        idle = self.done and not self.last_sign and now - self.last_message > self.stall_seconds
        if idle and not self.patient:
            raise UserError(f"No worker has taken up a job for {self.stall_seconds:.0f} seconds.")
        return orphaned

    def restarted(self, worker: str) -> bool:
        """Restart a worker that hangs, so that Dask gives its job to another; False where no nanny can do that."""
        known = self.look().get(worker)
        if known is None:
            return True  # gone already: Dask has noticed
        self.on_note(f"{worker} has been silent for {self.stall_seconds:.0f} s; its shard goes to another worker.")
        if not known["nanny"]:
            return False
        self.client.restart_workers([worker], timeout=30, raise_for_error=False)
        return True

    def look(self) -> dict[str, Any]:
        """The scheduler's workers; an error if it does not answer."""
        try:
            known = self.client.sync(self.client.scheduler.identity, callback_timeout=SILENCE_SECONDS)
        except (OSError, TimeoutError):
            raise UserError(self.lost()) from None
        workers: dict[str, Any] = known["workers"]
        return workers

    def lost(self) -> str:
        """The sentence for a scheduler that is gone."""
        address = self.client.scheduler.address if self.client.scheduler else "the scheduler's address"
        return (
            f"The scheduler at {address} is lost. Finished shards are kept; once a scheduler runs again, "
            "the same command goes on from there."
        )
