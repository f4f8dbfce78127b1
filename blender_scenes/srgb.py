"""Scene-linear colours to 8-bit sRGB, as Blender's "Standard" view without dithering."""

import numpy as np
from numpy.typing import NDArray


def to_srgb8(linear: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return round(255 s), s = 12.92 c for c <= 0.0031308 and 1.055 c^(1/2.4) - 0.055 above, c clipped to [0, 1]."""
    c = np.clip(linear, 0.0, 1.0)
    s = np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1.0 / 2.4) - 0.055)
    return (255.0 * s + 0.5).astype(np.uint8)
