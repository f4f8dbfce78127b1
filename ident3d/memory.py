"""Keep freed memory for the next step, and turn a lack of memory into one sentence with advice."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ident3d.errors import UserError

# options of mallopt(3), and the largest number that its argument can hold
TRIM_THRESHOLD, MMAP_MAX, MOST = -1, -4, 2**31 - 1
# torch raises a plain RuntimeError on a CPU, which only these words tell from others
WORDS = ("can't allocate memory", "Cannot allocate memory", "out of memory")


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
