"""The watchdog of a run: counts the images of running jobs and restarts workers that hang."""

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from ident3d.errors import UserError
from ident3d.farm.batch.job_queue import JobQueue
from ident3d.farm.local.dask_settings import GPU
from ident3d.loaders.folders.lifecycle import Job

# A worker hangs if it finishes no image of 224 pixels for so long. The slowest preset needs half a minute.
STALL_SECONDS = 300.0
# The times between two questions to the scheduler which workers are busy, between two notes that jobs wait for a
# worker, and in which workers that hung must be back.
POLL_SECONDS = 5.0
REMIND_SECONDS = 300.0
RESTART_SECONDS = 30
# After this time a scheduler that does not answer counts as lost.
SILENCE_SECONDS = 60.0


@dataclass
class Watch:
    """The images done of each running job, and each busy worker's last sign of life."""

    client: Client
    stall_seconds: float
    wait_forever: bool  # others start the workers: it is no failure if none is there
    on_gpu: bool = False  # jobs go only to workers that have a GPU
    workers: int = 0  # that can take jobs
    notes: list[str] = field(default_factory=list)  # for the user, not passed on yet
    done: dict[int, int] = field(default_factory=dict)  # first image of a running job -> images done
    last_sign: dict[str, float] = field(default_factory=dict)  # busy worker -> time
    last_message: float = field(default_factory=time.monotonic)
    last_poll: float = field(default_factory=time.monotonic)
    last_notice: tuple[str, float] = ("", 0.0)  # what jobs wait for, and when that was noted
    job_queue: JobQueue | None = None  # of the batch system, if the workers are its jobs

    def __post_init__(self) -> None:
        self.job_queue = JobQueue.of(self.client.cluster)
        self.count_workers(self.busy())

    def count_workers(self, there: Collection[str]) -> None:
        """Count the workers that can take a job. While there is none, note now and then what the jobs wait for."""
        self.workers = len(there)
        if self.job_queue:
            self.notes += self.job_queue.poll()
        known = self.query("identity") if self.on_gpu or not there else {}
        if known:
            able = [facts for facts in known["workers"].values() if not self.on_gpu or facts["resources"].get(GPU)]
            self.workers = len(able)
        if self.workers or not self.wait_forever:
            self.last_notice = ("", 0.0)
            return
        notice, now = waiting_for(known, self.on_gpu, own_cluster=bool(self.client.cluster)), time.monotonic()
        # The batch system's reasons change often: they are noted when they are first known, then with the reminders.
        reasons = self.job_queue.explain() if self.job_queue else ""
        if (key := f"{notice}{bool(reasons)}") != self.last_notice[0] or now - self.last_notice[1] > REMIND_SECONDS:
            self.last_notice = key, now
            self.notes.append(f"{notice}{reasons}")

    def count_images(self, report: dict[str, Any]) -> int:
        """Take a worker's report on a running job; return the change in the number of images done."""
        self.last_sign[report["worker"]] = self.last_message = time.monotonic()
        first = report["first"]
        # A report may be late: then the job has ended, and its images are counted.
        if first not in self.done:
            return 0
        change: int = report["done"] - self.done[first]
        self.done[first] = report["done"]
        return change

    def end(self, job: Job) -> int:
        """Forget a job that has ended; return how many of its images were counted."""
        self.last_message = time.monotonic()
        return self.done.pop(job.first)

    def poll(self, ours: Collection[str]) -> None:
        """Count the workers every few seconds, and restart those that hang, so that their jobs go to others.

        Raise UserError if the scheduler is gone, or if no worker of the run's own cluster takes up a job.
        """
        if self.client.status != "running":
            raise UserError(self.scheduler_lost())
        now = time.monotonic()
        if now - self.last_poll < min(POLL_SECONDS, self.stall_seconds / 2):
            return
        busy = self.busy()
        self.count_workers(busy)
        # A worker hangs if all its jobs are of this run and it has not reported for long. Another run's job on the same
        # worker may take its time: its reports do not come here.
        waiting = [worker for worker, keys in busy.items() if keys and keys <= set(ours)]
        self.last_sign = {worker: self.last_sign.get(worker, now) for worker in waiting}
        if silent := [worker for worker, last in self.last_sign.items() if now - last > self.stall_seconds]:
            self.restart(silent)
        if not waiting and not self.wait_forever and now - self.last_message > self.stall_seconds:
            raise UserError(f"No worker has taken up a job for {self.stall_seconds:.0f} seconds.")
        # A restart takes seconds. The time is taken after it, so that the reports of other workers that came meanwhile
        # are read before the next poll.
        self.last_poll = time.monotonic()

    def restart(self, workers: Sequence[str]) -> None:
        """Have the nannies of workers that hang restart them, all at once: each takes seconds, or does not answer."""
        known = self.query("identity")["workers"]
        # Dask knows already that the others are gone.
        there = [worker for worker in workers if worker in known]
        for worker in there:
            silence = f"{worker} has been silent for {self.stall_seconds:.0f} s"
            if known[worker]["nanny"]:
                self.notes.append(f"{silence} and is restarted; its shard goes to another worker.")
            else:
                self.notes.append(f"{silence} and has no nanny to restart it; stop it, so that another gets its shard.")
        if guarded := [worker for worker in there if known[worker]["nanny"]]:
            # Meanwhile the scheduler, or one of the workers, may be gone.
            with suppress(OSError, TimeoutError, KeyError):
                self.client.restart_workers(guarded, timeout=RESTART_SECONDS, raise_for_error=False)
        self.last_message = time.monotonic()
        self.last_sign |= dict.fromkeys(workers, self.last_message)

    def busy(self) -> dict[str, set[str]]:
        """Return every worker with the keys of its jobs, those of other runs included."""
        return {worker: set(keys) for worker, keys in self.query("processing", workers=None).items()}

    def query(self, question: str, **details: Any) -> dict[str, Any]:
        """Return the scheduler's answer; raise UserError if there is none."""
        try:
            asked = getattr(self.client.scheduler, question)
            answer: dict[str, Any] = self.client.sync(asked, callback_timeout=SILENCE_SECONDS, **details)
        except (OSError, TimeoutError, AttributeError):
            # The scheduler is None once the client has given it up.
            raise UserError(self.scheduler_lost()) from None
        return answer

    def scheduler_lost(self) -> str:
        """Return the message for a scheduler that is gone."""
        where = f" at {self.client.scheduler.address}" if self.client.scheduler else ""
        return (
            f"The scheduler{where} is lost, and its workers with it. Finished shards are kept: "
            "start a scheduler and workers again, and run the same command to continue."
        )


def waiting_for(known: dict[str, Any], on_gpu: bool, *, own_cluster: bool) -> str:
    """Return what jobs wait for if none of the scheduler's workers can take them, and how to start such a worker."""
    gpu = f" --resources {GPU}=1" if on_gpu else ""
    missing = f"None of the {len(known['workers'])} workers has a {GPU}" if known["workers"] else "No worker is there"
    if own_cluster:
        return f"{missing}; the shards wait until a job starts{gpu and f' whose worker has{gpu}'}."
    tls = " --tls-ca-file …" if known["address"].startswith("tls:") else ""
    return f"{missing}; the shards wait for one; start it with `dask worker {known['address']} --nthreads 1{gpu}{tls}`."
