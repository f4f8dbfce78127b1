"""A bound on the copies of stores' objects in our own cache folder: the least recently used are removed first.

A copy that is open can be read to its end all the same, and one that was asked for a moment ago is never removed.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from ident3d.errors import UserError

VARIABLE = "IDENT3D_CACHE_GB"
DEFAULT_GB = 100.0
MOMENT_SECONDS = 60.0  # in which a copy that was asked for is opened
PARTS = 50  # the copies are counted again when one part of the bound has been added
_added: dict[Path, int] = {}  # folder -> bytes that this process has put there since it last counted


def bound() -> float:
    """How many bytes the copies may take, as the user says."""
    given = os.environ.get(VARIABLE) or DEFAULT_GB
    try:
        gigabytes = float(given)
    except ValueError:
        gigabytes = -1.0
    if not gigabytes >= 0:
        raise UserError(f"{VARIABLE} takes a number of gigabytes, as in 200, not {given!r}.")
    return gigabytes * 1e9


def used(copy: Path) -> None:
    """Note that a copy is in use."""
    with suppress(OSError):  # of another user's cache it may be read only
        os.utime(copy)


def add(folder: Path, size: int) -> None:
    """Note that so many bytes were put into the folder, and hold it to the bound."""
    limit = bound()
    if folder in _added and _added[folder] + size < limit / PARTS:
        _added[folder] += size
        return
    _added[folder] = 0
    copies = [found for above in folder.iterdir() for found in in_folder(above)]
    total = sum(size for _, size, _ in copies)
    for _, size, copy in sorted(copies):
        if total <= limit:
            return
        with suppress(OSError):  # another process was faster
            if time.time() - copy.stat().st_mtime < MOMENT_SECONDS:
                continue  # it may have been asked for since it was counted
            copy.unlink()
            copy.parent.rmdir()
        total -= size


def in_folder(above: Path) -> list[tuple[float, int, Path]]:
    """When each copy in the folder was last asked for, its size and its path; none that is gone by now."""
    found = []
    with suppress(OSError):
        for copy in above.iterdir():
            known = copy.stat()
            found.append((known.st_mtime, known.st_size, copy))
    return found
