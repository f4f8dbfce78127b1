"""Where files go that a repair takes out of a dataset folder: into a folder ``removed-<time>`` in the same one.

A rename within the folder costs nothing and loses nothing, however large the file is.
"""

import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from ident3d.loaders.format.inside import folder_at, make_below

REMOVED = "removed-"


class Aside:
    """The folder for what is removed at this time. It is made when the first file is moved there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = ""
        self.moved: list[str] = []

    def place(self) -> str:
        """Return the folder's name, and make it unless it is there."""
        self.name = self.name or new_name(self.folder)
        return self.name

    def take(self, name: str) -> None:
        """Move the file `name`, as in ``shards/00000.h5``, or whatever else has that name, unless it is gone."""
        below, _, last = name.rpartition("/")
        with suppress(FileNotFoundError), folder_at(self.folder, below) as above:
            os.stat(last, dir_fd=above, follow_symlinks=False)
            there = f"{self.place()}/{below}".rstrip("/")
            if below:
                make_below(self.folder, there)
            with folder_at(self.folder, there) as into:
                os.rename(last, last, src_dir_fd=above, dst_dir_fd=into)
            self.moved.append(name)


def new_name(folder: Path) -> str:
    """Make the folder ``removed-<time>`` and return its name; one of the same second gets a number."""
    stamp = f"{REMOVED}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with folder_at(folder) as above:
        for number in count(1):
            name = stamp if number == 1 else f"{stamp}-{number}"
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
                return name
    raise AssertionError
