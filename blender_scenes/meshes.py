"""Meshes from arrays."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ident3d.blender_scenes.blender import bmesh, bpy
from ident3d.errors import UserError

# Edges that are sharper than this are shown as edges, in meshes out of files.
SHARP = math.radians(30)


def mesh_of_file(name: str, vertices: ArrayLike, faces: ArrayLike) -> bpy.types.Mesh:
    """Return a new mesh without a material, smooth but for its sharp edges."""
    mesh = new_mesh(name, vertices, faces)
    # What a file holds may be no surface: the same triangle twice, or one without area.
    mesh.validate()
    mesh.set_sharp_from_angle(angle=SHARP)
    return mesh


def new_mesh(
    name: str, vertices: ArrayLike, faces: ArrayLike, material: bpy.types.Material | None = None
) -> bpy.types.Mesh:
    """Return a new mesh of (V, 3) vertices and (F, 3 or 4) corners, with smooth shading.

    A face of four corners whose last two are equal is a triangle.
    """
    points, corners = np.asarray(vertices, dtype=np.float32), np.asarray(faces, dtype=np.int32)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise UserError(f"The vertices of mesh {name!r} must be finite and of shape (V, 3), not {points.shape}.")
    if corners.ndim != 2 or corners.shape[1] not in (3, 4) or corners.min() < 0 or corners.max() >= len(points):
        raise UserError(f"The faces of mesh {name!r} must be (F, 3) or (F, 4) indices below {len(points)}.")
    used = np.ones(corners.shape, dtype=bool)
    if corners.shape[1] == 4:
        used[:, 3] = corners[:, 3] != corners[:, 2]
    lengths = used.sum(axis=1)
    mesh = bpy.data.meshes.new(name)
    mesh.vertices.add(len(points))
    mesh.vertices.foreach_set("co", points.reshape(-1))
    mesh.loops.add(int(lengths.sum()))
    mesh.loops.foreach_set("vertex_index", corners[used])
    mesh.polygons.add(len(corners))
    mesh.polygons.foreach_set("loop_start", np.cumsum(lengths) - lengths)
    if material is not None:
        mesh.materials.append(material)
    mesh.update(calc_edges=True)
    mesh.shade_smooth()
    return mesh


def settle_meshes() -> None:
    """Put the edges and faces of all meshes in the order of their vertices.

    Blender's UV sphere has them in an order that depends on addresses in memory. Smooth normals add faces up in their
    order, so that two processes would disagree about the last bits of a pixel.
    """
    for mesh in bpy.data.meshes:
        # Blender keeps the shapes of these apart from the vertices.
        if mesh.shape_keys is not None:
            continue
        made = bmesh.new()
        made.from_mesh(mesh)
        for parts in (made.edges, made.faces):
            sort_by_vertices(parts)
        made.to_mesh(mesh)
        made.free()


def sort_by_vertices(parts: Any) -> None:
    """Sort the edges or the faces of a BMesh by the numbers of their vertices."""
    corners = [sorted(vertex.index for vertex in part.verts) for part in parts]
    order = sorted(range(len(corners)), key=corners.__getitem__)
    rank = dict(zip(order, range(len(order)), strict=True))
    parts.sort(key=lambda part: rank[part.index])
