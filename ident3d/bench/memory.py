"""What memory this process takes, now and at most, alone and together with its children."""

import os
import resource
import sys
import threading
from pathlib import Path

MB, MIB = 1e6, 2**20


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory now."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else high_water_bytes()


def high_water_bytes() -> int:
    """Return the most bytes of this process that have been in memory at once."""
    status = Path("/proc/self/status")
    # Getrusage would count what the parent had before it started this process.
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def together_mb() -> float:
    """Return the memory of this process and its children in MB.

    Each page is divided by the number of processes that share it (PSS), so that shared batches count once.
    """
    import psutil

    own = psutil.Process(os.getpid())
    total = 0
    for process in (own, *own.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        # The process has ended since it was listed.
        except psutil.Error:
            continue
    return float(total / MB)


class Peak:
    """The most memory of this process and its children while the block runs, in MB, watched by a thread."""

    def __enter__(self) -> "Peak":
        self.mb, self.over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self) -> None:
        # The kernel keeps no high-water mark of PSS, so it is read a hundred times a second.
        while not self.over.wait(0.01):
            self.mb = max(self.mb, together_mb())

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
