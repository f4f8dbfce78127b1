"""Bring every mesh to one pose and size, so that a class differs from the teapot in shape alone."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.teapot import SIDE
from ident3d.errors import UserError
from ident3d.shapes.parse import Triangles

# At 224 pixels more triangles cannot be seen. Up to here they cost no time.
MOST_TRIANGLES: Final = 20_000


class NormalMesh(NamedTuple):
    """A mesh as the studio takes it: upright along +z, looking along +x, its bounding box centred on the origin."""

    vertices: NDArray[np.float32]  # (V, 3)
    faces: NDArray[np.int32]  # (F, 3)


def normalise_mesh(mesh: Triangles, *, front: str = "+x", up: str = "+z") -> NormalMesh:
    """Return p → SIDE · (R p - centre) / largest side, with at most MOST_TRIANGLES faces that look outwards.

    SIDE is the teapot's largest side. R turns `front` to +x and `up` to +z.
    """
    # Points given twice are merged first, so that shading is smooth across them. Vertices without a face go before and
    # after the decimation: they would count for the size.
    vertices, faces = used(decimate(outward(used(merge(mesh)))))
    turned = vertices @ rotation(front, up).T
    low, high = turned.min(axis=0), turned.max(axis=0)
    placed = (turned - (low + high) / 2) * (SIDE / float((high - low).max()))
    return NormalMesh(placed.astype(np.float32), faces.astype(np.int32))


def rotation(front: str, up: str) -> NDArray[np.float64]:
    """Return the rotation that turns the axis `front`, such as "-z", to +x and the axis `up` to +z."""
    x, z = (np.eye(3)["xyz".index(axis[1])] * (-1 if axis[0] == "-" else 1) for axis in (front, up))
    return np.stack([x, np.cross(z, x), z])


def merge(mesh: Triangles) -> Triangles:
    """Return one vertex for each point, in order of first use, and no face that has lost its area by that."""
    # np.unique sorts the points. The files' own order is kept, because the decimation and the mesh's hash depend on it.
    points, first, place = np.unique(mesh.vertices, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    faces = rank[place.reshape(-1)][mesh.faces]
    a, b, c = faces.T
    return Triangles(points[order], faces[(a != b) & (b != c) & (c != a)].astype(np.int32))


def used(mesh: Triangles) -> Triangles:
    """Return the mesh without vertices that no face uses. Raise UserError if it has no area."""
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    if not np.cross(b - a, c - a).any():
        raise UserError("The mesh holds no triangles with an area.")
    kept, faces = np.unique(mesh.faces, return_inverse=True)
    return Triangles(mesh.vertices[kept], faces.reshape(-1, 3).astype(np.int32))


def volume(mesh: Triangles) -> float:
    """Return Σ a · (b × c) / 6 over the triangles: positive if they look outwards."""
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    return float((a * np.cross(b, c)).sum() / 6)


def outward(mesh: Triangles) -> Triangles:
    """Return the mesh with its faces turned outwards."""
    # A file's mesh may have holes. Around the centre of its vertices their part of the volume is small.
    centred = Triangles(mesh.vertices - mesh.vertices.mean(axis=0), mesh.faces)
    return mesh if volume(centred) >= 0 else Triangles(mesh.vertices, mesh.faces[:, ::-1])


def decimate(mesh: Triangles) -> Triangles:
    """Return the mesh with at most MOST_TRIANGLES faces.

    Edges are collapsed where the squared distance to the planes grows least. The method is Garland and Heckbert's
    quadric error metric.
    """
    if len(mesh.faces) <= MOST_TRIANGLES:
        return mesh
    try:
        from fast_simplification import simplify
    except ImportError:
        raise UserError("Meshes need the package fast-simplification: pip install 'ident3d[render]'.") from None
    faces = np.ascontiguousarray(mesh.faces, np.int32)
    vertices, faces = simplify(mesh.vertices, faces, target_count=MOST_TRIANGLES)
    return Triangles(np.asarray(vertices, np.float64), np.asarray(faces, np.int32))
