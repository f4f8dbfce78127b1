"""The queue of a batch system: which jobs of this run are in it, and why they wait.

Dask replaces a job only if it has seen the job's worker. A job that was cancelled while it waited, or that failed
before its worker connected, would never be replaced, and the run would never end.
"""

import os
import pwd
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ident3d.errors import UserError

LIST_SECONDS = 20.0  # between two listings; longer than Dask takes to replace a job whose worker it has lost
ANSWER_SECONDS = 30.0  # after which a listing that has not come is given up
ROUNDS = 3  # so many times each job has failed before its worker connected: the next would fail too


def slurm_states(listing: str) -> dict[str, str]:
    """Return the state of each job, with the reason if it waits, as in "PENDING (Resources)"."""
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return {row[0]: f"PENDING ({row[2]})" if row[1] == "PENDING" else row[1] for row in rows if len(row) == 3}


def sge_states(listing: str) -> dict[str, str]:
    """Return the state of each job, as in "qw"; the first two lines are the table's head."""
    rows = [line.split() for line in listing.splitlines()]
    return {row[0]: row[4] for row in rows if len(row) > 4 and row[0].isdecimal()}


# The class of the cluster -> the command that lists the user's jobs, and what reads its output. PBS and LSF are not
# listed here, because no one has tried theirs: for them all stays as Dask does it.
LISTINGS: dict[str, tuple[list[str], Callable[[str], dict[str, str]]]] = {
    "SLURMCluster": (["squeue", "--noheader", "--format=%A %T %r", "--user"], slurm_states),
    "SGECluster": (["qstat", "-s", "prs", "-u"], sge_states),
}


@dataclass
class JobQueue:
    """The jobs of one run that their batch system lists."""

    cluster: Any
    missing: set[str] = field(default_factory=set)  # jobs without a worker that the last listing did not have
    failed: int = 0  # jobs that ended before their worker connected, since a worker was last there
    refusal: str = ""  # why the system takes no more jobs, as last noted
    listed: float = field(default_factory=time.monotonic)
    states: Counter[str] = field(default_factory=Counter)  # of the jobs without a worker

    @classmethod
    def of(cls, cluster: Any) -> "JobQueue | None":
        """Return the queue of a cluster of batch jobs; None for other clusters, and systems without a listing."""
        return cls(cluster) if type(cluster).__name__ in LISTINGS else None

    def explain(self) -> str:
        """Return what the batch system says of jobs that wait, as in " squeue says: 2 PENDING (Resources)."."""
        states = ", ".join(f"{count} {state}" for state, count in self.states.items())
        return f" {LISTINGS[type(self.cluster).__name__][0][0]} says: {states}." if states else ""

    def poll(self) -> list[str]:
        """Have jobs replaced that were refused, or ended before their worker connected; return notes for the user.

        Raise UserError if all jobs end so.
        """
        if self.cluster.observed:
            self.failed = 0
        waiting = self.without_worker()
        if not waiting or time.monotonic() - self.listed < LIST_SECONDS:
            return []
        refused = [(name, job) for name, job in waiting.items() if not job.job_id]
        ended = self.find_ended({name: job for name, job in waiting.items() if job.job_id})
        self.listed = time.monotonic()
        # Of the refused jobs one is asked for each time, so that a batch system that is back, or has room again, is
        # found without a storm of requests.
        self.cluster.sync(self.forget, dict([*ended, *refused[:1]]))
        return [*self.note_refused([job.refusal for _, job in refused]), *self.note_ended([job for _, job in ended])]

    def find_ended(self, waiting: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return the jobs without a worker that are in the queue no more, and that Dask will not replace."""
        listing = self.list_jobs() if waiting else None
        if listing is None:
            return []
        self.states = Counter(listing[job.job_id] for job in waiting.values() if job.job_id in listing)
        absent = [(name, job) for name, job in waiting.items() if job.job_id not in listing]
        # A job whose worker connected and was lost is absent too, until Dask has replaced it: only a second listing
        # shows that Dask does not know of it.
        ended = [(name, job) for name, job in absent if job.job_id in self.missing]
        self.missing = {job.job_id for _, job in absent} - {job.job_id for _, job in ended}
        return ended

    def note_refused(self, reasons: list[str]) -> list[str]:
        """Return a note if the batch system has begun to refuse jobs, or does so for another reason."""
        before, self.refusal = self.refusal, reasons[0] if reasons else ""
        if self.refusal in ("", before):
            return []
        return [f"{self.refusal} ({len(reasons)} of {len(self.cluster.worker_spec)} jobs; they are asked for again.)"]

    def note_ended(self, jobs: list[Any]) -> list[str]:
        """Return a note on jobs that ended before their worker connected. Raise UserError if all do."""
        if not jobs:
            return []
        self.failed += len(jobs)
        log = f"the log of job {jobs[-1].job_id} in {Path(jobs[-1].log_directory or '').absolute()}"
        if self.failed >= ROUNDS * len(self.cluster.worker_spec):
            raise UserError(
                f"{self.failed} jobs ended before their workers connected, and no worker is there; see {log}. "
                "Often the job's machine lacks the python, or cannot reach this host."
            )
        return [
            f"{len(jobs)} of {len(self.cluster.worker_spec)} jobs ended before their workers connected, and are asked "
            f"for again; {log} may say why."
        ]

    def without_worker(self) -> dict[str, Any]:
        """Return the jobs, by name, none of whose workers is connected."""
        there = self.cluster.observed
        specs = dict(self.cluster.worker_spec)
        jobs = {name: job for name, job in dict(self.cluster.workers).items() if name in specs}
        groups = {name: specs[name].get("group", [""]) for name in jobs}  # several workers in one job
        return {
            name: job
            for name, job in jobs.items()
            if name not in there and not any(f"{name}{suffix}" in there for suffix in groups[name])
        }

    def list_jobs(self) -> dict[str, str] | None:
        """Return the state of each of the user's jobs by its number; None if the batch system does not answer."""
        command, read = LISTINGS[type(self.cluster).__name__]
        # A user's own defaults, as in SQUEUE_STATES, could hide jobs that are there.
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
        try:
            words = [*command, pwd.getpwuid(os.getuid()).pw_name]
            done = subprocess.run(
                words, env=surroundings, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True
            )
        except (OSError, KeyError, subprocess.SubprocessError):
            return None
        return read(done.stdout)

    async def forget(self, jobs: dict[str, Any]) -> None:
        """Take the jobs off Dask's list; it asks for others in their place."""
        for name, job in jobs.items():
            if self.cluster.workers.get(name) is job:
                del self.cluster.workers[name]
            await job.close()
