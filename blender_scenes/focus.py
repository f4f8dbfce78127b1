"""Where an image needs its samples: the boxes around the object and around the shadow that the spotlight casts of it.

Everywhere else the ground is lit evenly and a few samples do. The boxes follow from the scene alone, so which pixels
get more samples does not depend on noise.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Half the width of the pixel filter, in pixels.
FILTER_REACH = 0.75
# How far the spotlight's soft shadow reaches beyond its hard one, in image sizes.
PENUMBRA = 4 / 224


class Rectangle(NamedTuple):
    """Pixel columns left <= x < right and rows top <= y < bottom, row 0 at the top."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def window(self) -> tuple[slice, slice]:
        """Return the box as an index into an image."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def empty(self) -> bool:
        """Return whether no pixel lies in the box."""
        return self.left >= self.right or self.top >= self.bottom


def transform(points: Array, matrix: Array) -> Array:
    """Return points @ matrix, (N, 3) by (3, K)."""
    # This does not go through NumPy's BLAS, whose idle threads would spin through a whole render.
    return np.asarray(np.einsum("ij,jk->ik", points, matrix))


def project(points: Array, camera: Array, focal: float, size: int) -> Array:
    """Return pixel coordinates (N, 2): size / 2 + size * focal * x / -z and size / 2 - size * focal * y / -z.

    x, y and z are along the camera's axes. `camera` is its 4 x 4 world matrix, and `focal` its focal length over its
    sensor width.
    """
    x, y, z = transform(points - camera[:3, 3], camera[:3, :3]).T
    return np.stack([size * (0.5 - focal * x / z), size * (0.5 + focal * y / z)], axis=1)


def shadow(points: Array, light: Array, ground: float) -> Array | None:
    """Return where rays from `light` through the points meet the plane z = ground; None if one never does."""
    fall = points[:, 2] - light[2]
    if fall.max() >= 0 or points[:, 2].min() < ground:
        return None
    return np.asarray(light + (points - light) * ((ground - light[2]) / fall)[:, None])


def boxes(
    points: Array, light: Array, ground: float, camera: Array, focal: float, size: int
) -> tuple[Rectangle, Rectangle]:
    """Return the boxes around the object's points and around their shadow; the whole image if one is not known."""
    cast = shadow(points, light, ground)
    return (
        _around(points, camera, focal, size, FILTER_REACH),
        Rectangle(0, 0, size, size) if cast is None else _around(cast, camera, focal, size, PENUMBRA * size),
    )


def _around(points: Array, camera: Array, focal: float, size: int, margin: float) -> Rectangle:
    # A point behind the camera has no pixel.
    if transform(points - camera[:3, 3], camera[:3, 2:3]).max() >= 0:
        return Rectangle(0, 0, size, size)
    pixels = project(points, camera, focal, size)
    left, top = np.clip(np.floor(pixels.min(axis=0) - margin), 0, size).astype(int).tolist()
    right, bottom = np.clip(np.ceil(pixels.max(axis=0) + margin), 0, size).astype(int).tolist()
    return Rectangle(left, top, right, bottom)
