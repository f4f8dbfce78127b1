"""Raw latents → scene values, in the order of NAMES: units of length, and radians."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.exact.arithmetic import Float64, atan2
from ident3d.latents.exact.names import ANGLES, HUES, NAMES, POSITIONS

# Of the periodic world's raw numbers.
SPHERE: Final = slice(3, 11)


def box_values(raw: Float64, position_range: float, angle_range: float, hue_range: float) -> Float64:
    """Return range · raw, (n, 10), for raw latents (n, 10)."""
    scene = np.empty((len(raw), len(NAMES)))
    scene[:, POSITIONS] = raw[:, POSITIONS] * position_range
    scene[:, ANGLES] = raw[:, ANGLES] * angle_range
    scene[:, HUES] = raw[:, HUES] * hue_range
    return scene


def periodic_values(raw: Float64, position_range: float, angle_range: float, hue_range: float) -> Float64:
    """Return scene values (n, 10) for raw latents (n, 11), as `World.to_scene` says. Angles and hues go once round."""
    scene = np.empty((len(raw), len(NAMES)))
    scene[:, POSITIONS] = raw[:, POSITIONS] * position_range
    scene[:, 2] = (raw[:, 2] + 1) / 2 * position_range
    scene[:, 3:] = _spherical_coordinates(raw[:, SPHERE])
    scene[:, 3:-1] *= 2
    return scene


def _spherical_coordinates(point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return d angles for points (n, d + 1) on S^d: a_k = arccos(x_k / |(x_k … x_{d+1})|) in [0, π], a_d in [0, 2π)."""
    n, d = len(point), point.shape[1] - 1
    angles = np.empty((n, d))
    # The squared length of the coordinates after x_k is summed in this order on every machine, so that angles agree.
    rest = np.zeros(n)
    for k in range(d, 0, -1):
        rest = rest + point[:, k] * point[:, k]
        angles[:, k - 1] = atan2(np.sqrt(rest), point[:, k - 1])
    last = atan2(point[:, d], point[:, d - 1])
    angles[:, d - 1] = np.where(last < 0, 2 * math.pi + last, last)
    return angles
