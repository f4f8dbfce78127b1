"""What rendering needs of the meshes: hashes for the settings, shapes for a studio, credits for the card."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ident3d.errors import UserError
from ident3d.shapes.cache import load_mesh

if TYPE_CHECKING:
    from ident3d.blender_scenes.studio import Studio

MADE_IN_CODE = "Teapot"


def mesh_hashes(classes: Iterable[str]) -> dict[str, str]:
    """Return the hash of each class's mesh, without the teapot's. Raise UserError if one is missing."""
    return {name: load_mesh(name).record.sha256 for name in classes if name != MADE_IN_CODE}


def add_meshes(studio: "Studio", hashes: Mapping[str, str]) -> None:
    """Put the meshes with these hashes on a studio's stage. Raise UserError if the cache has another."""
    for name, sha256 in hashes.items():
        # A user may have put another mesh of the class into the cache since. It would change the images half way.
        mesh = load_mesh(name)
        if mesh.record.sha256 != sha256:
            raise UserError(f"The mesh of {name} in the cache is another than the one this dataset is rendered with.")
        studio.add_mesh(name, mesh.vertices, mesh.faces)


def mesh_credits(classes: Iterable[str]) -> list[str]:
    """Return a sentence for each class's mesh: where it came from, and under which terms."""
    records = {name: load_mesh(name).record for name in classes if name != MADE_IN_CODE}
    return [f"{name}: {record.origin}. Terms: {record.terms}." for name, record in records.items()]
