"""Where an image needs its samples: the box around the object and around the shadow that the spotlight casts of it.

Everywhere else the ground is lit evenly and a few samples are exact to the eye. The box follows from the scene alone,
so which pixels get more samples does not depend on noise.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OBJECT_MARGIN = 2
"""Pixels at size 224 by which the object's box grows: the pixel filter reaches that far."""
SHADOW_MARGIN = 4
"""The same for the shadow's box, for the penumbra of the spotlight's soft size."""
_MARGIN_SIZE = 224


class Box(NamedTuple):
    """Pixel columns left <= x < right and rows top <= y < bottom, row 0 at the top."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def window(self) -> tuple[slice, slice]:
        """The box as an index into an image."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


def project(points: NDArray[np.float64], camera: NDArray[np.float64], focal: float, size: int) -> NDArray[np.float64]:
    """Pixel coordinates (N, 2): (size / 2 + size * focal * x / -z, size / 2 - size * focal * y / -z) in camera axes.

    `camera` is its 4 x 4 world matrix and `focal` its focal length over its sensor width.
    """
    x, y, z = ((points - camera[:3, 3]) @ camera[:3, :3]).T
    return np.stack([size * (0.5 - focal * x / z), size * (0.5 + focal * y / z)], axis=1)


def shadow(points: NDArray[np.float64], light: NDArray[np.float64], ground: float) -> NDArray[np.float64] | None:
    """Where rays from `light` through the points meet the plane z = ground; None if one never does."""
    fall = points[:, 2] - light[2]
    if fall.max() >= 0 or points[:, 2].min() < ground:
        return None
    cast: NDArray[np.float64] = light + (points - light) * ((ground - light[2]) / fall)[:, None]
    return cast


def focus(
    points: NDArray[np.float64],
    light: NDArray[np.float64],
    ground: float,
    camera: NDArray[np.float64],
    focal: float,
    size: int,
) -> Box:
    """The box around the object's points and their shadow; the whole image where that cannot be told."""
    whole = Box(0, 0, size, size)
    cast = shadow(points, light, ground)
    if cast is None:
        return whole
    low, high = [], []
    for group, margin in ((points, OBJECT_MARGIN), (cast, SHADOW_MARGIN)):
        depth = (group - camera[:3, 3]) @ camera[:3, 2]
        if depth.max() >= 0:  # behind the camera
            return whole
        pixels = project(group, camera, focal, size)
        reach = margin * size / _MARGIN_SIZE
        low.append(pixels.min(axis=0) - reach)
        high.append(pixels.max(axis=0) + reach)
    left, top = np.clip(np.floor(np.min(low, axis=0)), 0, size).astype(int).tolist()
    right, bottom = np.clip(np.ceil(np.max(high, axis=0)), 0, size).astype(int).tolist()
    return Box(left, top, right, bottom)
