"""Keep freed memory for the next step, and turn a lack of memory into one sentence, for threads too."""

import _thread
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ident3d.errors import UserError

# options of mallopt(3), and the largest number that its argument can hold
TRIM_THRESHOLD, MMAP_MAX, MOST = -1, -4, 2**31 - 1
# torch raises a plain RuntimeError on a CPU, which only these words tell from others
WORDS = ("can't allocate memory", "Cannot allocate memory", "out of memory")
# A thread starts within milliseconds, or within seconds on a crowded machine.
START_SECONDS = 10.0


def keep_memory() -> bool:
    """Let this process keep the memory that it frees; return whether that was possible.

    A training step frees and asks for the same large tensors again, and a studio the same films. By default glibc maps
    each of them anew, and the kernel clears their pages: 44,000 page faults in a step of a ResNet18 on 128 images of
    64×64, instead of 4,000; and Dask has its workers give back every page. Environment variables would come too late
    for a process that runs already; mallopt does not.
    """
    if not sys.platform.startswith("linux"):
        return False
    # Other C libraries than glibc have no mallopt.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(mallopt and mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, MOST))


def is_out_of_memory(error: Exception) -> bool:
    """Return whether NumPy or torch raised this for lack of memory."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(w in str(error) for w in WORDS))


@contextmanager
def memory_advice(advice: str) -> Iterator[None]:
    """Turn a lack of memory into one sentence with advice, around work whose size the user chose."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"There is not enough memory for this; {advice}.") from error


def start_thread(work: Callable[[], object]) -> threading.Event | None:
    """Start a thread that keeps no process alive; return what is set when it ends, or None if it could not start."""
    started, ended = threading.Event(), threading.Event()

    def live() -> None:
        started.set()
        try:
            work()
        finally:
            ended.set()

    # Of `threading`, a thread that dies at birth, as it does at the end of the memory, is waited for without end.
    try:
        _thread.start_new_thread(live, ())
    except RuntimeError:  # what Python says if the system gives no thread
        return None
    return ended if started.wait(START_SECONDS) else None
