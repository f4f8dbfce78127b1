"""The outlines of dSprites' three shapes, and where a sprite's latents put them.

Square, ellipse and heart are polygons around the origin of (u, v), v downward, in pixels at scale 1. The constants were
fitted to published images: of 320 frames of the published animation 318 are equal to the pixel.
"""

from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

SIZE: Final = 64
SHAPES: Final = ("square", "ellipse", "heart")
HALF_SIDE: Final = 9.598
# The ellipse has the area of a circle of this radius, and as much longer an axis as the other is shorter.
RADIUS, STRETCH = 9.6, 1.33
ELLIPSE_VERTICES, HEART_VERTICES = 112, 150
# The heart's height over the sum of cosines, and how far its centre of rotation is below the middle of the curve.
HEART_HEIGHT, HEART_RAISED = 9.6 / 14.5, 1.44
# Columns and rows of the centre at position 0, and from position 0 to 1.
FIRST, TRAVEL = 16.0, 32.0


@cache
def outline(shape: str) -> Floats:
    """Return the vertices (k, 2) of a shape at scale 1 that is not turned: u to the right, v downward."""
    if shape == "square":
        return HALF_SIDE * np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)])
    if shape == "ellipse":
        t = turn(ELLIPSE_VERTICES)
        return np.column_stack([RADIUS * STRETCH * np.cos(t), RADIUS / STRETCH * np.sin(t)])
    t = turn(HEART_VERTICES)
    height = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.column_stack([RADIUS * np.sin(t) ** 3, -HEART_RAISED - HEART_HEIGHT * height])


def turn(vertices: int) -> Floats:
    """Return so many angles from 0, once round."""
    return 2 * np.pi * np.arange(vertices) / vertices


def place(shape: str, scale: Floats, orientation: Floats, down: Floats) -> Floats:
    """Return the outlines (n, vertices, 2) of one shape, scaled, turned counter-clockwise, and moved down.

    At a pixel centre (X, Y) a sprite at (C_x, C_y) has u = (cos θ (X - C_x) - sin θ (Y - C_y)) / s and
    v = (sin θ (X - C_x) + cos θ (Y - C_y)) / s. Columns are counted from C_x, rows from the top of the image.
    """
    u, v = outline(shape).T
    c, s = np.cos(orientation)[:, None], np.sin(orientation)[:, None]
    x, y = scale[:, None] * (c * u + s * v), scale[:, None] * (c * v - s * u)
    return np.stack([x, y + centre(down)[:, None]], -1)


def centre(position: Floats) -> Floats:
    """Return the column or row of the centre at a position from 0 to 1."""
    return np.asarray(FIRST + TRAVEL * position)
