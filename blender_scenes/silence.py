"""Keep what Blender prints off the terminal, and show it if something fails."""

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock

from ident3d.errors import UserError

_STDOUT, _STDERR = 1, 2
_lock = RLock()
_TAIL = 4000


class BlenderError(RuntimeError):
    """Something failed in Blender; the message ends with what Blender wrote to the console."""


def _scratch() -> int:
    """Open a file without a name, in memory if the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ident3d-console")
    handle, path = tempfile.mkstemp()
    # Windows does not let an open file be unlinked.
    with suppress(OSError):
        Path(path).unlink()
    return handle


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A stream may be closed, or absent as in a windowed process.
        with suppress(ValueError, AttributeError):
            stream.flush()
    # Blender's lines wait in a buffer of the C library.
    with suppress(OSError, TypeError):
        ctypes.CDLL(None).fflush(None)


@contextmanager
def silent() -> Iterator[None]:
    """Send stdout and stderr of the whole process, C code included, to memory; on failure raise BlenderError with them.

    If nothing fails, stdout is dropped and stderr is written out at the end: another thread, such as a Dask worker's
    event loop, may have logged there meanwhile.
    """
    # The two file descriptors belong to the whole process, so two threads must not redirect them at once.
    with _lock:
        _flush()
        kept = [(fd, os.dup(fd), _scratch()) for fd in (_STDOUT, _STDERR)]
        for fd, _, scratch in kept:
            os.dup2(scratch, fd)
        failure: Exception | None = None
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            failure = error
        finally:
            _flush()
            said = []
            for fd, original, scratch in kept:
                os.dup2(original, fd)
                os.lseek(scratch, 0, os.SEEK_SET)
                with os.fdopen(scratch, "rb") as file:
                    said.append(file.read())
                os.close(original)
            if said[1] and failure is None:
                os.write(_STDERR, said[1])
        if failure is not None:
            log = b"".join(said).decode(errors="replace").strip()[-_TAIL:]
            raise BlenderError(f"{failure}\nBlender said:\n{log or '(nothing)'}") from failure
