"""Writing files so that a reader never sees half of one, not even after a crash."""

import errno
import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

TEMPORARY = ".partial-"
FULL = (errno.ENOSPC, errno.EDQUOT)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write under a temporary name, sync, rename, sync the folder: `path` then holds all of `data`, or is as before."""
    # The name is in the same folder, because a rename is atomic only within one file system. Without the first sync the
    # rename could reach the disk before the data; without the second, a crash could undo it.
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            Path(name).chmod(0o644)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
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
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
