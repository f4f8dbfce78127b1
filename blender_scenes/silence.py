"""Blender's console noise, kept off the terminal and shown when something fails."""

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
    """A file of no name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ident3d-console")
    handle, path = tempfile.mkstemp()
    with suppress(OSError):  # an open file cannot be unlinked on Windows
        Path(path).unlink()
    return handle


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, AttributeError):  # closed, or absent as in a windowed process
            stream.flush()
    with suppress(OSError, TypeError):
        ctypes.CDLL(None).fflush(None)


@contextmanager
def silent() -> Iterator[None]:
    """Send stdout and stderr of the whole process, C code included, to memory; on failure raise BlenderError with them.

    Blender chats on stdout, which is dropped when all goes well. Stderr is written out late instead: another thread,
    such as a Dask worker's event loop, may have logged there in the meantime.
    """
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
