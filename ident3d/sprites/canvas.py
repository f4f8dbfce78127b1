"""The four shapes of Natural Sprites, and how a sprite is drawn: on a canvas five times as wide, then made smaller.

Lengths are in widths of the image, x to the right and y upward. A shape at scale s has the area s². Sums and products
are taken in the published renderer's order, so that a vertex on the edge of a pixel falls on the same side.
"""

from collections.abc import Sequence
from functools import cache
from math import cos, pi, radians, sin, sqrt
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Floats: TypeAlias = NDArray[np.float64]

SIZE: Final = 64
FINER: Final = 5
CANVAS: Final = FINER * SIZE
# Around a sprite all is black, so that only its surroundings need be made smaller, often a tenth of the canvas. The
# filter reaches three pixels far. With six around the sprite, those that it lights are the same as of all the canvas.
SEEN: Final = 6
SHAPES: Final = ("square", "triangle", "star_4", "spoke_4")
# Corners of the star and of the cross lie at odd eighths of a turn.
EIGHTH: Final = pi / 4


@cache
def outline(shape: str) -> Floats:
    """Return the vertices (k, 2) of a shape of area 1 that is not turned."""
    if shape in ("square", "triangle"):
        k, first = (4, EIGHTH) if shape == "square" else (3, pi / 2)
        corners = [direction(i * (2 * pi / k) + first) for i in range(k)]
        return np.array(corners) / sqrt(k * sin(pi / k) * cos(pi / k))
    inner = [direction(i * (pi / 2) + EIGHTH) for i in range(4)]
    tips = [direction((i + 0.5) * (pi / 2) + EIGHTH) for i in range(4)]
    if shape == "star_4":
        corners = [each for i in range(4) for each in (inner[i], 2 * tips[i])]
        return np.array(corners) / sqrt(8 * sin(EIGHTH))
    # Each arm ends in a square side of the inner one's length.
    before = [direction(-0.5 * (pi / 2) + EIGHTH), *tips]
    corners = [each for i in range(4) for each in (before[i] + inner[i], inner[i], tips[i] + inner[i])]
    return np.array(corners) / sqrt(4 * sin(EIGHTH) * (2 + cos(EIGHTH)))


def direction(angle: float) -> Floats:
    return np.array([np.cos(angle), np.sin(angle)])


def place(shape: str, values: Floats) -> Floats:
    """Return outlines (n, k, 2) on the canvas of one shape at x, y, scale and angle in degrees (n, 4)."""
    x, y, scale, angle = values.T
    u, v = outline(shape).T
    angles, which = np.unique(angle, return_inverse=True)
    c, s = (np.array([f(radians(a)) for a in angles.tolist()])[which.reshape(-1)] * scale for f in (cos, sin))
    across = c[:, None] * u - s[:, None] * v + x[:, None]
    up = s[:, None] * u + c[:, None] * v + y[:, None]
    return np.asarray(CANVAS * np.stack([across, up], -1))


def draw(values: Floats, shapes: Sequence[str] = SHAPES) -> NDArray[np.uint8]:
    """Return grey images (n, 64, 64) at x, y, scale, angle and the shape's number in `shapes` (n, 5)."""
    out = np.zeros((len(values), SIZE, SIZE), np.uint8)
    canvas = Image.new("L", (CANVAS, CANVAS))
    pen = ImageDraw.Draw(canvas)
    for number, shape in enumerate(shapes):
        rows = np.flatnonzero(values[:, 4] == number)
        outlines = place(shape, values[rows, :4])
        for row, vertices, box in zip(rows.tolist(), outlines, boxes(outlines).tolist(), strict=True):
            left, low, right, high = box
            if left >= right or low >= high:
                continue
            canvas.paste(0, (0, 0, CANVAS, CANVAS))
            pen.polygon(vertices.ravel().tolist(), fill=255)
            cut = (FINER * left, FINER * low, FINER * right, FINER * high)
            small = canvas.resize((right - left, high - low), Image.Resampling.LANCZOS, cut)
            # Rows of a picture are counted from its top, and y from the bottom.
            out[row, SIZE - high : SIZE - low, left:right] = np.asarray(small)[::-1]
    return out


def boxes(outlines: Floats) -> NDArray[np.int64]:
    """Return the part of the image (n, 4) outside of which nothing of an outline is seen: left, low, right, high."""
    near = np.floor(outlines.min(1) / FINER) - SEEN
    far = np.ceil(outlines.max(1) / FINER) + SEEN
    return np.clip(np.hstack([near, far]), 0, SIZE).astype(np.int64)
