"""Writing files so that a reader never sees half of one, not even after a crash."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ident3d.errors import UserError

TEMPORARY = ".partial-"
FULL = (errno.ENOSPC, errno.EDQUOT)
# Bytes. Of `[[],[],…` the parser makes thirty times as many, so that no machine's memory is filled.
LARGEST_JSON = 2**24


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file: afterwards it holds all of `data`, or is as before."""
    with atomic_file(path) as file:
        file.write(data)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file with a temporary name. At the end of the block it becomes `path`; after an error it is deleted."""
    # The name is in the same folder, because a rename is atomic only within one file system. Without the first sync the
    # rename could reach the disk before the data; without the second, a crash could undo it.
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            # A temporary file is its owner's alone, but a dataset is for everyone who may enter its folder.
            os.fchmod(handle, 0o644)
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partial_files(folder: Path) -> None:
    """Delete what a killed writer left under a temporary name. Only the holder of the folder's lease may call it."""
    for path in folder.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, object]) -> None:
    try:
        data = (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError as error:
        # Python hands on the bytes of such a path as half characters, which no text file can hold.
        wrong = error.object[max(0, error.start - 40) : error.end + 40]
        raise UserError(f"{path.name} cannot record a name that is not UTF-8 ({wrong!a}); rename it.") from None
    write_atomically(path, data)


def read_json(path: Path, largest: int = LARGEST_JSON) -> dict[str, Any]:
    """Return the object that a JSON file holds. Raise ValueError, which says why, if there is anything else in it."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise ValueError(f"it has {size:,} bytes")
        return parse_json(file.read(size + 1))


def parse_json(data: bytes) -> dict[str, Any]:
    """Return the object of this JSON text. Raise ValueError if it is anything else, nested too deeply, or no text."""
    try:
        content = json.loads(data)
        # An escape can stand for half a character, which cannot be printed or written.
        if b"\\u" in data:
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__} instead of an object")
    return content
