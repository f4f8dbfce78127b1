"""Real processes for the benchmarks: a Dask scheduler with workers, and what processes use of CPU time and memory."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ident3d.bench.memory import MIB
from ident3d.errors import UserError

START_SECONDS = 60


@dataclass(frozen=True)
class Served:
    """A scheduler on loopback: its address and process, and the processes of the workers' nannies."""

    address: str
    scheduler: int
    nannies: tuple[int, ...]


@contextmanager
def served(workers: int) -> Iterator[Served]:
    """Run ``dask scheduler`` and so many ``dask worker``s on loopback, as docs/how-to/cluster.md starts them."""
    with TemporaryDirectory() as folder:
        # The scheduler chooses a free port and writes its address to this file.
        file = Path(folder) / "scheduler.json"
        pages = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        words = ["scheduler", "--host", "tcp://127.0.0.1:0", "--scheduler-file", str(file), *pages]
        worker = ["worker", "--scheduler-file", str(file), "--nthreads", "1", "--resources", "GPU=1", *pages]
        started = [start_dask(words, folder), *(start_dask(worker, folder) for _ in range(workers))]
        try:
            end = time.monotonic() + START_SECONDS
            while not file.exists():
                if time.monotonic() > end or started[0].poll() is not None:
                    raise UserError("`dask scheduler` does not start here.")
                time.sleep(0.05)
            address = json.loads(file.read_text(encoding="utf-8"))["address"]
            yield Served(address, started[0].pid, tuple(process.pid for process in started[1:]))
        finally:
            # The workers end first: a worker waits for seconds for a scheduler that is gone.
            for ending in (started[1:], started[:1]):
                for process in ending:
                    process.terminate()
                for process in ending:
                    process.wait()


def start_dask(words: list[str], folder: str) -> "subprocess.Popen[bytes]":
    command, surroundings = [sys.executable, "-m", "dask", *words], os.environ | {"DASK_TEMPORARY_DIRECTORY": folder}
    return subprocess.Popen(command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of these processes and their living children."""
    import psutil

    total = 0.0
    for pid in pids:
        # The kernel adds a child's time to its parent only when it has ended, so living ones are read one by one.
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def resident_mib(pid: int) -> float:
    """Return the resident set of a process in MiB."""
    import psutil

    return float(psutil.Process(pid).memory_info().rss / MIB)
