"""Keep freed memory for the next step, which glibc would fault in again each time, and say where it is too little."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ident3d.errors import UserError

# options of mallopt(3), and the most that its argument can say
TRIM_THRESHOLD, MMAP_MAX, MOST = -1, -4, 2**31 - 1
WORDS = ("can't allocate memory", "Cannot allocate memory", "out of memory")


def keep_memory() -> bool:
    """Let this process keep what it frees; whether that was possible.

    A training step frees and asks for the same large tensors again, and a studio the same films. By default glibc maps
    each of them anew, and the kernel clears their pages: 44,000 page faults in a step of a ResNet18 on 128 images of
    64×64, instead of 4,000; and Dask has its workers give back every page. Environment variables would come too late
    for a process that runs already; mallopt does not.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    return bool(mallopt and mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, MOST))


def is_want_of_memory(error: Exception) -> bool:
    """Torch's error, on a CPU, is known by its words alone."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(w in str(error) for w in WORDS))


@contextmanager
def enough_memory(advice: str) -> Iterator[None]:
    """Around work whose size the user chose: what NumPy and torch raise for want of memory becomes one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_want_of_memory(error):
            raise
        raise UserError(f"There is not enough memory for this; {advice}.") from error
