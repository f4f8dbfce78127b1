"""What the farm knows of its jobs at work: images done, who is busy with them, and since when nothing was heard."""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from ident3d.errors import UserError
from ident3d.farm.connect import GPU
from ident3d.loaders.folders.lifecycle import Job

STALL_SECONDS = 300.0  # without a finished image of 224 pixels; the slowest preset needs half a minute on a busy core
LOOK_SECONDS = 5.0  # between two looks at who is busy
REMIND_SECONDS = 300.0  # between two notes that jobs wait for a worker
RESTART_SECONDS = 30  # in which workers that hang are to be back
SILENCE_SECONDS = 60.0  # after which a scheduler that does not answer counts as lost


@dataclass
class Watch:
    """Images done of each job at work, and each busy worker's last sign of life."""

    client: Client
    stall_seconds: float
    patient: bool  # the workers are not ours: that none is free is no failure
    on_note: Callable[[str], object]
    on_gpu: bool = False  # jobs go to workers that have a GPU
    workers: int = 0  # that can take them
    done: dict[int, int] = field(default_factory=dict)  # first image of a running job -> images done
    heard: dict[str, float] = field(default_factory=dict)  # worker -> time
    last_message: float = field(default_factory=time.monotonic)
    looked: float = field(default_factory=time.monotonic)
    told: tuple[str, float] = ("", 0.0)  # what the jobs were last said to wait for, and when

    def __post_init__(self) -> None:
        self.count(self.busy())

    def count(self, there: Collection[str]) -> None:
        """Count the workers that can take a job; while there is none, say now and then what the jobs wait for."""
        self.workers = len(there)
        known = self.ask("identity") if self.on_gpu or not there else {}
        if known:
            able = [facts for facts in known["workers"].values() if not self.on_gpu or facts["resources"].get(GPU)]
            self.workers = len(able)
        if self.workers or not self.patient:
            self.told = ("", 0.0)
            return
        sentence, now = waiting_for(known, self.on_gpu, begun=bool(self.client.cluster)), time.monotonic()
        if sentence != self.told[0] or now - self.told[1] > REMIND_SECONDS:
            self.told = sentence, now
            self.on_note(sentence)

    def hear(self, message: dict[str, Any]) -> int:
        """Take a worker's word on a running job; the change in the number of images done."""
        self.heard[message["worker"]] = self.last_message = time.monotonic()
        first = message["first"]
        if first not in self.done:
            return 0  # an echo of a job that has ended
        change: int = message["done"] - self.done[first]
        self.done[first] = message["done"]
        return change

    def end(self, job: Job) -> int:
        """Forget a job that has ended; how many of its images were counted."""
        self.last_message = time.monotonic()
        return self.done.pop(job.first)

    def look(self, ours: Collection[str]) -> None:
        """Now and then: count the workers, and restart those that hang, so that their jobs go to others.

        A worker hangs that has nothing but jobs of ours and has said nothing for long. Gives up if the scheduler is
        gone, or if nobody works at all on a cluster that is ours.
        """
        if self.client.status != "running":
            raise UserError(self.lost())
        now = time.monotonic()
        if now - self.looked < min(LOOK_SECONDS, self.stall_seconds / 2):
            return
        busy = self.busy()
        self.count(busy)
        waiting = [worker for worker, keys in busy.items() if keys and keys <= set(ours)]
        self.heard = {worker: self.heard.get(worker, now) for worker in waiting}
        if silent := [worker for worker, last in self.heard.items() if now - last > self.stall_seconds]:
            self.restart(silent)
        if not waiting and not self.patient and now - self.last_message > self.stall_seconds:
            raise UserError(f"No worker has taken up a job for {self.stall_seconds:.0f} seconds.")
        self.looked = time.monotonic()  # what others said while some were restarted is heard before the next look

    def restart(self, workers: Sequence[str]) -> None:
        """Have the nannies of workers that hang restart them, all at once: each takes seconds, or does not answer."""
        known = self.ask("identity")["workers"]
        there = [worker for worker in workers if worker in known]  # Dask has noticed that the others are gone
        for worker in there:
            silence = f"{worker} has been silent for {self.stall_seconds:.0f} s"
            if known[worker]["nanny"]:
                self.on_note(f"{silence} and is restarted; its shard goes to another worker.")
            else:
                self.on_note(f"{silence} and has no nanny to restart it; stop it, so that its shard goes to another.")
        if guarded := [worker for worker in there if known[worker]["nanny"]]:
            with suppress(OSError, TimeoutError, KeyError):  # the scheduler is gone, or one of the workers meanwhile
                self.client.restart_workers(guarded, timeout=RESTART_SECONDS, raise_for_error=False)
        self.last_message = time.monotonic()
        self.heard |= dict.fromkeys(workers, self.last_message)

    def busy(self) -> dict[str, set[str]]:
        """Every worker, and the keys of the jobs, ours and others', that it has."""
        return {worker: set(keys) for worker, keys in self.ask("processing", workers=None).items()}

    def ask(self, question: str, **details: Any) -> dict[str, Any]:
        """The scheduler's answer; an error if it gives none."""
        try:
            asked = getattr(self.client.scheduler, question)
            answer: dict[str, Any] = self.client.sync(asked, callback_timeout=SILENCE_SECONDS, **details)
        except (OSError, TimeoutError, AttributeError):  # the scheduler is None once the client has given it up
            raise UserError(self.lost()) from None
        return answer

    def lost(self) -> str:
        """The sentence for a scheduler that is gone."""
        where = f" at {self.client.scheduler.address}" if self.client.scheduler else ""
        return (
            f"The scheduler{where} is lost, and its workers end with it. Finished shards are kept: "
            "start a scheduler and workers again, and the same command goes on from there."
        )


def waiting_for(known: dict[str, Any], on_gpu: bool, *, begun: bool) -> str:
    """What jobs wait for that no worker which the scheduler knows of can take, and how to have such a worker."""
    gpu = f" --resources {GPU}=1" if on_gpu else ""
    missing = f"None of the {len(known['workers'])} workers has a {GPU}" if known["workers"] else "No worker is there"
    if begun:
        return f"{missing}; the shards wait for a job to begin{gpu and f' that starts its worker with{gpu}'}."
    tls = " --tls-ca-file …" if known["address"].startswith("tls:") else ""
    return f"{missing}; the shards wait for one started by `dask worker {known['address']} --nthreads 1{gpu}{tls}`."
