"""Runs of our commands in forked processes, which storms kill or have fail, without a new interpreter for each."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

SHIM = Path(__file__).with_name("shim.c")
READS, WRITES, OPENS, NAMES, LOCKS, STATS = (1 << k for k in range(6))
ALL = READS | WRITES | OPENS | NAMES | LOCKS | STATS
MANY = 10**9
# Else a process that was forked hangs: the threads of its libraries are not there.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
SECONDS = 300  # after which a run counts as one that hangs
BROKEN = 70  # the exit code of a command that an exception ended
CALLS = "\ncalls: "


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code, or minus the signal's number; what it printed; its seconds."""

    code: int
    text: str
    seconds: float
    calls: int = 0


def compile_shim(scratch: Path) -> Path | None:
    """Return the compiled library, or None without gcc."""
    if not which("gcc"):
        return None
    library = scratch / "shim.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True)
    return library


def begin_again(library: Path | None) -> None:
    """Start this script anew with one thread and the library loaded first, unless that is done."""
    if "STORM_SHIM" in os.environ:
        return
    os.environ |= ONE_THREAD | {"STORM_SHIM": str(library or "")} | ({"LD_PRELOAD": str(library)} if library else {})
    os.execv(sys.executable, [sys.executable, *sys.argv])


def shim() -> Any:
    """Return the library, which is loaded already; None without gcc."""
    name = os.environ.get("STORM_SHIM")
    return ctypes.CDLL(name) if name else None


def count_calls(folder: Path, kinds: int = ALL) -> None:
    """Have the calls on files below the folder be counted, and none fail."""
    shim().storm(os.fsencode(folder), MANY, MANY, 1, kinds)


def strike(folder: Path, first: int, *, error: int, times: int = MANY, kinds: int = ALL) -> None:
    """Have the calls from number `first` on fail with this error, or kill the process with error 0."""
    shim().storm(os.fsencode(folder), first, first + times, error, kinds)


class Forked:
    """A command that runs in a process of its own, forked from this one; `prepare` is called there first."""

    def __init__(
        self, words: Sequence[str], prepare: Callable[[], object] | None = None, *, calls: bool = False
    ) -> None:
        self.begun, self.status, self.text = time.monotonic(), None, b""
        # No file, because its size may be what is limited.
        self.reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid:
            os.close(writing)
            os.set_blocking(self.reading, False)
            return
        code = BROKEN
        try:
            os.setsid()
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            os.close(writing)
            os.close(self.reading)
            code = run(words, prepare, calls=calls)
        finally:
            os._exit(code)

    def running(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
            with suppress(BlockingIOError):
                while part := os.read(self.reading, 65536):
                    self.text += part
        return self.status is None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Ended:
        while self.running():
            if time.monotonic() > self.begun + SECONDS:
                self.kill()
            time.sleep(0.002)
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1
        text, _, made = self.text.decode(errors="replace").partition(CALLS)
        return Ended(os.waitstatus_to_exitcode(self.status or 0), text, time.monotonic() - self.begun, int(made or 0))


def run(words: Sequence[str], prepare: Callable[[], object] | None, *, calls: bool) -> int:
    """Run a command in this process and return its exit code."""
    from ident3d.cli import main

    try:
        if prepare:
            prepare()
        try:
            main(list(words))
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        sys.stdout.flush()
        if calls:
            os.write(1, f"{CALLS}{shim().storm_calls()}".encode())
        return code
    except BaseException:
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
            resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)
        traceback.print_exc()
        sys.stderr.flush()
        return BROKEN
