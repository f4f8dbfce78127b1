"""The memory that a process and its children take together, and the most of it over some time."""

import os
import threading

MB = 1e6


def together_mb() -> float:
    """Σ over this process and its children of their pages, each page divided by how many processes share it (PSS)."""
    import psutil

    own = psutil.Process(os.getpid())
    total = 0
    for process in (own, *own.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return float(total / MB)


class Peak:
    """Watches the memory of this process and its children in a thread."""

    def __enter__(self) -> "Peak":
        self.mb, self.over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.over.wait(0.01):
            self.mb = max(self.mb, together_mb())

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
