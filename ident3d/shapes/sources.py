"""Where the meshes come from, how they lie, and under which terms: the facts of sources.toml.

The published renderer's own meshes are not known. These are the same figures, found in source distributions on the
package index; no wheel holds them. The identity of the Head is the least certain: the bust is the nearest match.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True)
class Archive:
    """A source distribution, pinned."""

    name: str
    version: str
    sha256: str
    size: int  # bytes

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def filename(self) -> str:
        return f"{self.folder}.tar.gz"


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
