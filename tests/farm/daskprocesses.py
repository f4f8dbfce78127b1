"""A real Dask scheduler and real workers, each a process of its own that can be killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from following import FOLLOW

DASK = """
from dask.__main__ import main
main()
"""


class DaskProcesses:
    """One ``dask scheduler`` and its ``dask worker``s, on loopback unless `address` says otherwise.

    Every process leads a group of its own, so that a worker is killed together with its nanny, as by a power cut. All
    of them end with the tests.
    `prefix` goes before each command, as in ``ip netns exec``.
    """

    def __init__(self, folder: Path, address: str = "tcp://127.0.0.1", options: Sequence[str] = ()) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"scheduler-{time.monotonic_ns()}.json"
        self.options = options
        self.workers: list[subprocess.Popen[bytes]] = []
        words = ["scheduler", "--host", f"{address}:0", "--no-dashboard", "--scheduler-file", str(self.file)]
        words += ["--dashboard-address", "127.0.0.1:0"]
        self.scheduler = self.start([*words, *options])
        self.logs = 0

    def start(
        self, words: Sequence[str], prefix: Sequence[str] = (), environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        command = [*prefix, sys.executable, "-c", FOLLOW + DASK, *words]
        log = self.folder / f"{words[0]}-{time.monotonic_ns()}.log"
        with log.open("wb") as out:
            env = os.environ | {"DASK_TEMPORARY_DIRECTORY": str(self.folder)} | (environment or {})
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=env,
                cwd=self.folder,
            )

    def add_worker(
        self, *words: str, prefix: Sequence[str] = (), environment: dict[str, str] | None = None, threads: int = 1
    ) -> subprocess.Popen[bytes]:
        own = ["worker", "--scheduler-file", str(self.file), "--nthreads", str(threads), "--no-dashboard"]
        own += ["--death-timeout", "30", "--local-directory", str(self.folder), *self.options, *words]
        self.workers.append(self.start(own, prefix, environment))
        return self.workers[-1]

    @staticmethod
    def kill(process: subprocess.Popen[bytes]) -> None:
        """SIGKILL the process and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin:
            process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in (*self.workers, self.scheduler):
            self.kill(process)
