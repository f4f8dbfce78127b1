"""Hue angles to scene-linear RGB, as the published generator did it and as it was meant."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def hue_to_rgb(hue_angle: ArrayLike, saturation: float, *, wrapped: bool = False) -> NDArray[np.float64]:
    """Return the RGB of hsv(hue_angle / 2 pi, saturation, 1), shape (..., 3).

    The published generator hands colorsys a negative hue as it is, without mod 1, and Blender then clamps negative
    channels to 0 and leaves values above 1: with h = hue_angle / 2 pi in (-1/6, 0) the colour does not depend on h.
    `wrapped` takes the hue mod 1 first, which is injective on any interval shorter than a turn.

    >>> hue_to_rgb(-0.5, 1.0).tolist()
    [1.0, 0.0, 0.0]
    """
    sextants = 6.0 * (np.asarray(hue_angle, dtype=np.float64) / (2.0 * np.pi))
    if wrapped:
        sextants = 6.0 * ((sextants / 6.0) % 1.0)
    # As colorsys does: it truncates towards zero, so that the fraction of a negative hue is negative.
    whole = np.trunc(sextants)
    fraction = sextants - whole
    v = np.ones_like(sextants)
    p = v - saturation
    q = 1.0 - saturation * fraction
    t = 1.0 - saturation * (1.0 - fraction)
    sectors = ((v, t, p), (q, v, p), (p, v, t), (p, q, v), (t, p, v), (v, p, q))
    sector = (whole.astype(np.int64) % 6)[..., None]
    rgb = np.select([sector == k for k in range(6)], [np.stack(channels, axis=-1) for channels in sectors])
    return rgb.clip(min=0.0)
