"""Newell's teapot: 32 bicubic Bezier patches, tessellated to the mesh that 3DIdent shows.

Body, rim, lid and bottom are (nearly) surfaces of revolution: four rotated copies of a quarter, whose control points
are a profile of four (radius, height) pairs carried along the quarter circle's control polygon. Handle and spout are
mirrored halves: each row of a half is an inner and an outer point in the plane y = 0 and the two at half a width.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Largest side of the unscaled mesh in the scene's pose. Other meshes are scaled to the same.
SIDE = 2.961411

_QUARTER = np.array([(1.0, 0.0), (1.0, -0.56), (0.56, -1.0), (0.0, -1.0)])
# The knob's widest ring is the one place where Newell rounded 0.56 * 0.8 to 0.45.
_KNOB_QUARTER = np.array([(1.0, 0.0), (1.0, -0.5625), (0.5625, -1.0), (0.0, -1.0)])

# (radius, height) of the four control rings of each quarter, from the outside top downwards.
_PROFILES = {
    "rim": [(1.4, 2.4), (1.3375, 2.53125), (1.4375, 2.53125), (1.5, 2.4)],
    "upper body": [(1.5, 2.4), (1.75, 1.875), (2.0, 1.35), (2.0, 0.9)],
    "lower body": [(2.0, 0.9), (2.0, 0.45), (1.5, 0.225), (1.5, 0.15)],
    "bottom": [(1.5, 0.15), (1.5, 0.075), (1.425, 0.0), (0.0, 0.0)],
    "knob": [(0.0, 3.15), (0.8, 3.15), (0.0, 2.85), (0.2, 2.7)],
    "lid": [(0.2, 2.7), (0.4, 2.55), (1.3, 2.55), (1.3, 2.4)],
}

# (inner x, inner z, outer x, outer z, half width) of each control row; a patch ends with the row that starts the next.
_HANDLE = [
    (-1.6, 2.025, -1.5, 2.25, 0.3),
    (-2.3, 2.025, -2.5, 2.25, 0.3),
    (-2.7, 2.025, -3.0, 2.25, 0.3),
    (-2.7, 1.8, -3.0, 1.8, 0.3),
    (-2.7, 1.575, -3.0, 1.35, 0.3),
    (-2.5, 1.125, -2.65, 0.9375, 0.3),
    (-2.0, 0.9, -1.9, 0.6, 0.3),
]
_SPOUT = [
    (1.7, 1.425, 1.7, 0.6, 0.66),
    (2.6, 1.425, 3.1, 0.825, 0.66),
    (2.3, 2.1, 2.4, 2.025, 0.25),
    (2.7, 2.4, 3.3, 2.4, 0.25),
    (2.8, 2.475, 3.525, 2.49375, 0.25),
    (2.9, 2.475, 3.45, 2.5125, 0.15),
    (2.8, 2.4, 3.2, 2.4, 0.15),
]


class Mesh(NamedTuple):
    """Vertices and faces; a face with three corners repeats its last one."""

    vertices: NDArray[np.float32]  # (V, 3)
    faces: NDArray[np.int32]  # (F, 4)


def patches() -> NDArray[np.float64]:
    """Return Newell's control points, (32, 4, 4, 3), with all patches turned the same way round."""
    found: list[NDArray[np.float64]] = []
    for name, profile in _PROFILES.items():
        rings = []
        for row, (radius, height) in enumerate(profile):
            quarter = _KNOB_QUARTER if (name, row) == ("knob", 1) else _QUARTER
            rings.append(np.column_stack([radius * quarter, np.full(4, height)]))
        patch = np.array(rings)
        for _ in range(4):
            found.append(patch)
            # A turn by -90 degrees about z, exact in floating point.
            patch = np.stack([patch[..., 1], -patch[..., 0], patch[..., 2]], axis=-1)
    for rows in (_HANDLE, _SPOUT):
        strip = np.array([[(xi, 0, zi), (xi, -w, zi), (xo, -w, zo), (xo, 0, zo)] for xi, zi, xo, zo, w in rows])
        for half in (strip[:4], strip[3:]):
            mirrored = half[:, ::-1] * (1.0, -1.0, 1.0)
            found.extend((half, mirrored))
    return np.array(found)


def tessellate(control: NDArray[np.float64], segments: int = 10) -> Mesh:
    """Sample each patch p(u, v) = sum_ij B_i(u) B_j(v) c_ij on segments x segments quads and merge equal points."""
    t = np.linspace(0.0, 1.0, segments + 1)
    bernstein = np.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], axis=1)
    points = np.einsum("ui,vj,pijk->puvk", bernstein, bernstein, control).reshape(-1, 3)
    # Neighbouring patches give the same point up to rounding in float64; + 0.0 makes -0.0 and 0.0 one key.
    _, first, merged = np.unique(points.round(6) + 0.0, axis=0, return_index=True, return_inverse=True)
    grid = merged.reshape(len(control), segments + 1, segments + 1)
    quads = np.stack([grid[:, :-1, :-1], grid[:, :-1, 1:], grid[:, 1:, 1:], grid[:, 1:, :-1]], axis=-1).reshape(-1, 4)
    faces = [tuple(dict.fromkeys(quad)) for quad in quads.tolist()]
    whole = [face + face[-1:] * (4 - len(face)) for face in faces if len(face) > 2]
    return Mesh(points[first].astype(np.float32), np.array(whole, dtype=np.int32))


def teapot(segments: int = 10) -> Mesh:
    """Return the teapot before the object's scale, placed by p -> Rz(-45 deg) (0.634686 p) - (0, 0, 0.906694)."""
    vertices, faces = tessellate(patches(), segments)
    x, y, z = (0.634686 * vertices.astype(np.float64)).T
    half = np.sqrt(0.5)
    placed = np.column_stack([half * (x + y), half * (y - x), z - 0.906694])
    return Mesh(placed.astype(np.float32), faces)
