"""Normalised meshes in the user's cache folder: an index, and one array file per class named after its hash.

The index is written last and whole, so that a mesh is there or is not.
"""

import hashlib
import io
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.exact.names import CLASSES
from ident3d.loaders.format.arrays import BAD_FILE
from ident3d.loaders.format.files import read_json, write_atomically, write_json
from ident3d.machine import cache_folder
from ident3d.shapes.normalise import NormalMesh

INDEX: Final = "index.json"
_FORMAT: Final = 1
_AGAIN: Final = "`ident3d meshes` brings it again"


@dataclass(frozen=True)
class Record:
    """What the index says of one class's mesh. `sha256` is of its vertices and faces, `origin` where it came from."""

    sha256: str
    triangles: int
    origin: str
    terms: str


class CachedMesh(NamedTuple):
    """A class's mesh and what is known of it."""

    vertices: NDArray[np.float32]  # (V, 3)
    faces: NDArray[np.int32]  # (F, 3)
    record: Record


def mesh_folder() -> Path:
    """Return the folder that holds the meshes, below the user's cache folder."""
    return cache_folder() / "meshes"


def cached_meshes() -> dict[str, Record]:
    """Return the classes whose meshes are in the cache, with what the index says of them."""
    path = mesh_folder() / INDEX
    try:
        content = read_json(path)
        # An index of another version of ident3d will be replaced.
        if content["format"] != _FORMAT:
            return {}
        records = {name: Record(**record) for name, record in content["meshes"].items() if name in CLASSES}
        for record in records.values():
            # The hash becomes part of a file's name, so it must be a number.
            int(record.sha256, 16)
            if [type(value) for value in astuple(record)] != [str, int, str, str]:
                raise TypeError
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path} cannot be read; delete it, and `ident3d meshes` brings the meshes again.") from None
    # A killed process may have left the index without a file, or a user may have deleted one.
    return {name: record for name, record in records.items() if (mesh_folder() / file_name(name, record)).is_file()}


def file_name(name: str, record: Record) -> str:
    return f"{name}-{record.sha256[:16]}.npz"


def mesh_sha256(mesh: NormalMesh) -> str:
    """Return the hash that a dataset's settings hold: of the shapes, the vertices and the faces, little-endian."""
    # It is of the arrays and not of the file: NumPy's archives hold the time at which they were written.
    digest = hashlib.sha256(f"{mesh.vertices.shape} {mesh.faces.shape}".encode())
    digest.update(np.ascontiguousarray(mesh.vertices, "<f4").tobytes())
    digest.update(np.ascontiguousarray(mesh.faces, "<i4").tobytes())
    return digest.hexdigest()


def load_mesh(name: str) -> CachedMesh:
    """Return a class's mesh from the cache, its hash checked. UserError names the command that brings it."""
    record = cached_meshes().get(name)
    if record is None:
        raise UserError(f"The mesh of {name} is not here yet; `ident3d meshes` fetches it, once.")
    path = mesh_folder() / file_name(name, record)
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            mesh = NormalMesh(file["vertices"], file["faces"])
    except BAD_FILE:
        raise UserError(f"The mesh {path} cannot be read; delete it, and {_AGAIN}.") from None
    # Arrays of other types could have the same bytes, and so the same hash.
    kinds = mesh.vertices.dtype == np.float32 and mesh.faces.dtype == np.int32
    if not kinds or mesh_sha256(mesh) != record.sha256:
        raise UserError(f"The mesh {path} does not match its hash; delete it, and {_AGAIN}.")
    return CachedMesh(*mesh, record)


def store(name: str, mesh: NormalMesh, *, origin: str, terms: str) -> Record:
    """Put a class's mesh into the cache, in place of what was there. The caller holds the folder's lease."""
    record = Record(mesh_sha256(mesh), len(mesh.faces), origin, terms)
    buffer = io.BytesIO()
    np.savez(buffer, vertices=mesh.vertices, faces=mesh.faces)
    # The file is first, the index second, the old file last: whenever this stops, the index names files that are there.
    write_atomically(mesh_folder() / file_name(name, record), buffer.getvalue())
    records = cached_meshes() | {name: record}
    index = {known: asdict(records[known]) for known in CLASSES if known in records}
    write_json(mesh_folder() / INDEX, {"format": _FORMAT, "meshes": index})
    kept = {file_name(known, entry) for known, entry in records.items()}
    for file in mesh_folder().glob("*.npz"):
        if file.name not in kept:
            file.unlink()
    return record
