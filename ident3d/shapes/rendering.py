"""What rendering needs of the meshes: hashes for the settings, shapes for a scene, credits for the card."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from numpy.typing import ArrayLike

from ident3d.errors import UserError
from ident3d.shapes.cache import load_mesh

MADE_IN_CODE = "Teapot"
# Class → vertices and faces.
Meshes: TypeAlias = dict[str, tuple[ArrayLike, ArrayLike]]


def mesh_hashes(classes: Iterable[str]) -> dict[str, str]:
    """Return the hash of each class's mesh, without the teapot's. Raise UserError if one is missing."""
    return {name: load_mesh(name).record.sha256 for name in classes if name != MADE_IN_CODE}


def load_meshes(hashes: Mapping[str, str]) -> Meshes:
    """Return the meshes with these hashes. Raise UserError if the cache has another."""
    meshes = {name: load_mesh(name) for name in hashes}
    for name, sha256 in hashes.items():
        # A user may have put another mesh of the class into the cache since. It would change the images half way.
        if meshes[name].record.sha256 != sha256:
            raise UserError(f"The mesh of {name} in the cache is another than the one this dataset is rendered with.")
    return {name: (mesh.vertices, mesh.faces) for name, mesh in meshes.items()}


def mesh_credits(classes: Iterable[str]) -> list[str]:
    """Return a sentence for each class's mesh: where it came from, and under which terms."""
    records = {name: load_mesh(name).record for name in classes if name != MADE_IN_CODE}
    return [f"{name}: {record.origin}. Terms: {record.terms}." for name, record in records.items()]
