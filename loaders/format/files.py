"""Writing files so that a reader never sees half of one, not even after a crash."""

import errno
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ident3d.errors import UserError, os_errors, unknown
from ident3d.loaders.format.inside import folder_at, name_in_errors, names_in, open_plain, read_plain, remove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPORARY = ".partial-"
FULL = (errno.ENOSPC, errno.EDQUOT)
# Bytes. Of `[[],[],…` the parser makes thirty times as many, so that no machine's memory is filled.
LARGEST_JSON = 2**24


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    with os.fdopen(open_plain(path.parent, path.name), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes, *, within: Path | None = None) -> None:
    """Write the file: afterwards it holds all of `data`, or is as before.

    The folders from `within` down to the file must not be links. By default that is none of them.
    """
    with atomic_file(path, within=within) as file:
        file.write(data)


def write_figure(path: Path, figure: "Figure") -> None:
    """Write a figure of matplotlib's in the format that the path's ending names: whole, or not at all."""
    kind, picture = path.suffix.lower().removeprefix("."), io.BytesIO()
    if kind not in figure.canvas.get_supported_filetypes():
        raise unknown("picture format", path.suffix or path.name, (".png", ".pdf", ".svg"))
    figure.savefig(picture, format=kind, dpi=150)
    with os_errors(f"The picture cannot be written to {path}"):
        write_atomically(path, picture.getvalue())


@contextmanager
def atomic_file(path: Path, *, within: Path | None = None, sync: bool = True) -> Iterator[BinaryIO]:
    """Yield a file with a temporary name. At the end of the block it becomes `path`; after an error it is deleted.

    Without `sync` a crash of the machine may leave an empty file. That is for what is quickly made again.
    """
    # The name is in the same folder, because a rename is atomic only within one file system. Without the first sync the
    # rename could reach the disk before the data; without the second, a crash could undo it.
    base = within or path.parent
    below, _, last = path.relative_to(base).as_posix().rpartition("/")
    partial = f"{TEMPORARY}{secrets.token_hex(8)}"
    with folder_at(base, below) as above:
        with name_in_errors(path, above, last):
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=above)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                # A temporary file is its owner's alone, but a dataset is for everyone who may enter its folder.
                os.fchmod(handle, 0o644)
                if sync:
                    os.fsync(handle)
            with name_in_errors(path, above, last):
                os.replace(partial, last, src_dir_fd=above, dst_dir_fd=above)
        except BaseException as error:
            with suppress(FileNotFoundError):
                os.unlink(partial, dir_fd=above)
            # What a write raises names no file, and its temporary name would tell nobody anything.
            if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
                error.filename = str(path)
            raise
        if sync:
            os.fsync(above)


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make the folder and those above it. Those that are still empty at the end are removed again."""
    # A refused request must leave nothing behind, not even the empty folders of its --out.
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    with os_errors(f"{path} cannot be written"):
        path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


def sync_folder(folder: Path) -> None:
    with folder_at(folder) as descriptor:
        os.fsync(descriptor)


def remove_partial_files(folder: Path, below: str = "", *, keep: str = "") -> None:
    """Delete what a killed writer left under a temporary name, but `keep`. Only the holder of the lease may call it."""
    for name in names_in(folder, below):
        if name.startswith(TEMPORARY) and name != keep:
            with suppress(IsADirectoryError):
                remove(folder, f"{below}/{name}".lstrip("/"))


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
    data = read_plain(path.parent, path.name, largest)
    if len(data) > largest:
        raise ValueError(f"it has more than {largest:,} bytes")
    return parse_json(data)


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
