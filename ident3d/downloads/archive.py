"""A pinned archive of a package index: its name, its hash, and the check of a file that should be it."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from ident3d.errors import UserError


@dataclass(frozen=True)
class Archive:
    """A package's archive, pinned. The ending is that of its file's name, behind name and version."""

    name: str
    version: str
    sha256: str
    size: int  # bytes
    ending: str = ".tar.gz"

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def filename(self) -> str:
        return f"{self.folder}{self.ending}"


def check_archive(path: Path, archive: Archive) -> Path:
    """Return the path if it holds the pinned archive; raise UserError if its hash differs."""
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != archive.sha256:
            raise UserError(f"{path} is not the {archive.filename} that ident3d knows: its sha256 differs.")
    return path


def without_credentials(text: str) -> str:
    """Return the text in one line, with URLs that lack user and password."""
    return re.sub(r"//[^/\s]*@", "//", " ".join(text.split()))
