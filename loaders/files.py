"""Writing files so that a reader, or a crash, never meets half of one; and locking a folder while it is written."""

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ident3d.errors import UserError

TEMPORARY = ".partial-"


class Busy(UserError):
    """Another living process writes to the folder."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write under a temporary name, sync, rename, sync the folder: `path` then holds all of `data`, or is as before."""
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
    """Delete what a killed writer left under a temporary name. Only for the holder of the folder's lock."""
    for path in folder.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, object]) -> None:
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the folder for writing; refuse, naming the holder, while another living process has it.

    The kernel drops the lock with the process that holds it, however that ends, so no lock is ever stale.
    """
    import fcntl  # here, so that datasets can be read where there is no such thing

    path = folder / ".lock"
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise Busy(f"{folder} is being written by {holder}; wait for it, or stop it first.") from None
        except OSError as error:
            os.close(descriptor)
            raise UserError(f"The file system of {folder} does not lock files ({error.strerror}).") from None
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)  # the holder before us removed the file between our open and our lock
    try:
        with suppress(OSError):  # the name of the holder is a kindness; on a full disk it is left out
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode())
        yield
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(descriptor)
