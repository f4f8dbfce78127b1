"""The files of a user's own scene besides its text, which workers get with their jobs, or find at their paths.

It loads no bpy.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from ident3d.errors import UserError, os_errors

# Bytes of a compressed file that goes along with every job. A larger one is read by the workers from its path.
MOST_PACKED: Final = 1_000_000


@dataclass(frozen=True)
class SceneFile:
    """One file: what it is to the scene, its sha256, and where its content is: here, compressed, or at its path."""

    use: str
    sha256: str
    path: str = field(compare=False)
    packed: bytes | None = field(compare=False, repr=False)

    def read(self) -> bytes:
        """Return the content; raise UserError if it is another than at the start of the run."""
        if self.packed is not None:
            return zlib.decompress(self.packed)
        with os_errors(f"{self.path}, which is too large to be sent to the workers, cannot be read there"):
            content = Path(self.path).read_bytes()
        if sha256(content).hexdigest() != self.sha256:
            raise UserError(f"{self.path} was changed since this run began; the same command says what to do.")
        return content


# sha256 → the file, of all that this process was given: settings say no more than the sha256.
_known: dict[str, SceneFile] = {}


def read_scene_file(use: str, path: Path | str) -> SceneFile:
    """Return a file of the scene, read once."""
    with os_errors(f"{path} cannot be read"):
        if Path(path).exists() and not Path(path).is_file():
            raise UserError(f"{path} is not a file.")
        content = Path(path).read_bytes()
    packed = zlib.compress(content, 6)
    sent, where = packed if len(packed) <= MOST_PACKED else None, str(Path(path).absolute())
    found = SceneFile(use, sha256(content).hexdigest(), where, sent)
    keep([found])
    return found


def keep(files: Iterable[SceneFile]) -> None:
    """Make these files known to this process, for scenes whose settings name them."""
    _known.update({file.sha256: file for file in files})


def known_file(digest: str) -> SceneFile:
    """Return the file that settings name by its sha256. It is never one that a dataset folder brings along."""
    if digest not in _known:
        raise UserError(f"No file with the sha256 {digest[:8]}… was given; name the scene's files again.")
    return _known[digest]
