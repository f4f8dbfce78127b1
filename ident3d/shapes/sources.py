"""Where the meshes come from, how they lie, and under which terms: the facts of sources.toml.

The published renderer's own meshes are not known. These are the same figures, found in source distributions on the
package index; no wheel holds them. The identity of the Head is the least certain: the bust is the nearest match.
"""

import hashlib
import tarfile
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from ident3d.downloads.archive import Archive
from ident3d.errors import UserError

# In bytes. A larger member is not one that we know, and would only fill memory.
LARGEST_MEMBER: Final = 50_000_000


@dataclass(frozen=True)
class Source:
    """One class's mesh: a member of an archive, the axes along which it looks and stands there, and its terms.

    `member` is below the archive's one folder, and `sha256` is the member's hash.
    """

    archive: Archive
    member: str
    sha256: str
    front: str
    up: str
    origin: str
    terms: str

    @property
    def filename(self) -> str:
        return self.member.rpartition("/")[2]


def _read() -> dict[str, Source]:
    facts = tomllib.loads(files("ident3d.shapes").joinpath("sources.toml").read_text("utf-8"))
    archives = {name: Archive(name, **given) for name, given in facts["archives"].items()}
    return {name: Source(**given | {"archive": archives[given["archive"]]}) for name, given in facts["meshes"].items()}


SOURCES: Final = _read()


def extract(path: Path, source: Source) -> bytes:
    """Return the source's member of the archive at `path`, its hash checked. Nothing is unpacked to disk."""
    name = f"{source.archive.folder}/{source.member}"
    try:
        with tarfile.open(path, "r:gz") as archive:
            member = archive.getmember(name)
            file = archive.extractfile(member) if member.isfile() and member.size <= LARGEST_MEMBER else None
            data = file.read() if file else b""
    except (OSError, KeyError, tarfile.TarError, EOFError):
        raise UserError(f"{path} has no readable {name}.") from None
    return check_member(f"{name} in {path.name}", data, source)


def check_member(name: str, data: bytes, source: Source) -> bytes:
    """Return the data if it is the pinned member; raise UserError if its hash differs."""
    if hashlib.sha256(data).hexdigest() != source.sha256:
        raise UserError(f"{name} is not the file that ident3d knows: its sha256 differs.")
    return data
