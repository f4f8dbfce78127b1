"""Files inside a folder that others may have prepared: no link in it is followed, and nothing in it blocks.

A link in place of `shards` or of a file would have us write, delete or read elsewhere. A FIFO would have us wait for
ever. So everything is opened from the folder's own descriptor, part by part, and only plain files are read.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ident3d.errors import UserError

FOLLOW_VARIABLE = "IDENT3D_FOLLOW_LINKS"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, to open a FIFO waits for the process at its other end.
FILE_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
KIND_NAMES = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotPlain(UserError):
    """Something else stands where a dataset has a plain file, or a folder of its own."""


def links_are_followed() -> bool:
    """Return whether the user asks to read through links. Nothing is ever written or deleted through one."""
    return os.environ.get(FOLLOW_VARIABLE, "") not in ("", "0")


@contextmanager
def folder_at(folder: Path, below: str = "", *, reading: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder, or of the one `below` it, which must not be a link."""
    # The folder itself was named by the user, and may be a link. What lies in it was not.
    follow = reading and links_are_followed()
    number = os.open(folder, FOLDER_FLAGS)
    try:
        for part in Path(below).parts:
            with name_in_errors(folder / below, number, part):
                inner = os.open(part, FOLDER_FLAGS | (0 if follow else os.O_NOFOLLOW), dir_fd=number)
            os.close(number)
            number = inner
        yield number
    finally:
        os.close(number)


@contextmanager
def name_in_errors(path: Path, folder: int, name: str) -> Iterator[None]:
    """Give an OSError the whole path of the file. What is no plain file or folder becomes one sentence."""
    try:
        yield
    except OSError as error:
        # A link is ELOOP for a file and ENOTDIR for a folder; a socket is ENXIO.
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            with suppress(OSError):
                refuse(path, os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        error.filename, error.filename2 = str(path), None
        raise


def refuse(path: Path, mode: int) -> None:
    """Raise NotPlain, which says what stands there."""
    what = KIND_NAMES.get(stat.S_IFMT(mode), "not a folder")
    read = ""
    if stat.S_ISLNK(mode):
        read = f"; to read through it, set {FOLLOW_VARIABLE}=1"
        if links_are_followed():
            read = "; nothing is written or deleted through a link"
    raise NotPlain(f"{path} is {what}, where a dataset has a file or folder of its own{read}.")


def open_plain(folder: Path, name: str, flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of the plain file `name`, which may lie in a folder below, as in ``shards/00000.h5``."""
    reading = flags == os.O_RDONLY
    below, _, last = name.rpartition("/")
    no_link = 0 if reading and links_are_followed() else os.O_NOFOLLOW
    with folder_at(folder, below, reading=reading) as above, name_in_errors(folder / name, above, last):
        number = os.open(last, flags | FILE_FLAGS | no_link, 0o644, dir_fd=above)
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            refuse(folder / name, mode)
    except BaseException:
        os.close(number)
        raise
    return number


def check_plain(folder: Path, name: str) -> None:
    """Raise NotPlain if something else has the name of this file. Of what lies behind a link nothing is known."""
    with suppress(FileNotFoundError):
        os.close(open_plain(folder, name))


def read_plain(folder: Path, name: str, most: int | None = None) -> bytes:
    """Return all of a plain file; if it has more than `most` bytes, the first `most` + 1 of them."""
    with os.fdopen(open_plain(folder, name), "rb") as file:
        # As many bytes as are asked for are set aside at once, and a manifest may ask for any number of them.
        size = os.fstat(file.fileno()).st_size
        return file.read() if most is None else file.read(min(most, size) + 1)


def plain_sizes(folder: Path, below: str, names: Iterable[str]) -> dict[str, int | None]:
    """Return the size of each of these files in the folder `below`; None for what is missing or no plain file."""
    found: dict[str, int | None] = dict.fromkeys(names)
    follow = links_are_followed()
    with suppress(FileNotFoundError), folder_at(folder, below, reading=True) as above:
        for name in found:
            with suppress(FileNotFoundError):
                known = os.stat(name, dir_fd=above, follow_symlinks=follow)
                found[name] = known.st_size if stat.S_ISREG(known.st_mode) else None
    return found


def names_in(folder: Path, below: str) -> list[str]:
    """Return the sorted names in the folder `below`; none if it is missing."""
    with suppress(FileNotFoundError), folder_at(folder, below, reading=True) as above, os.scandir(above) as there:
        return sorted(each.name for each in there)
    return []


def make_below(folder: Path, below: str) -> None:
    """Make the folder `below` unless it is there; a link or a file of its name is refused."""
    over, _, last = below.rpartition("/")
    with folder_at(folder, over) as above, suppress(FileExistsError):
        os.mkdir(last, dir_fd=above)
    with folder_at(folder, below):
        pass


def remove(folder: Path, name: str) -> None:
    """Delete a file, or a link itself, unless it is gone."""
    below, _, last = name.rpartition("/")
    with suppress(FileNotFoundError), folder_at(folder, below) as above, name_in_errors(folder / name, above, last):
        os.unlink(last, dir_fd=above)
