"""Filled polygons, one sample a pixel: a pixel is lit if its centre lies inside. No pixel is ever half lit."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

# Images that are drawn together: their pixels and crossings take about 20 MB.
TOGETHER: Final = 256


def fill(outlines: Floats, which: NDArray[np.int64], across: Floats, size: int) -> NDArray[np.uint8]:
    """Return images (n, size, size) of 0 and 1: image i shows outline `which[i]`, moved to the right by `across[i]`.

    The pixel in row r and column c is 1 if its centre (c + ½, r + ½) lies inside, by the even-odd rule. `outlines`
    (m, vertices, 2) hold columns and rows in pixels, rows downward.
    """
    edges = crossings(outlines, size)
    images = np.empty((len(which), size, size), np.uint8)
    # A pixel is inside if an odd number of the crossings of its row lie to its left. The first column to the right of
    # a crossing is a small whole number, and bytes are quickly compared.
    columns = np.arange(size, dtype=np.uint8)
    for first in range(0, len(which), TOGETHER):
        part = slice(first, first + TOGETHER)
        moved = edges[which[part]] + (across[part] - 0.5)[:, None, None]
        lit_from = np.clip(np.ceil(moved), 0, size).astype(np.uint8)
        inside = np.zeros((len(moved), size, size), np.bool_)
        for k in range(edges.shape[2]):
            inside ^= columns >= lit_from[:, :, k, None]
        images[part] = inside
    return images


def crossings(outlines: Floats, size: int) -> Floats:
    """Return where each row's line of pixel centres crosses each outline (m, size, most), in pixels; ∞ fills up."""
    x, y = outlines[..., 0], outlines[..., 1]
    next_x, next_y = np.roll(x, -1, 1), np.roll(y, -1, 1)
    line = np.arange(size) + 0.5
    # One end of an edge belongs to it: a line through a vertex crosses one of its two edges, or both or none.
    below = y[:, None] <= line[:, None]
    outline, row, edge = np.nonzero(below != np.roll(below, -1, 2))
    share = (line[row] - y[outline, edge]) / (next_y - y)[outline, edge]
    place = x[outline, edge] + share * (next_x - x)[outline, edge]
    # They come sorted by outline and row: the number of a crossing in its row is how far it is from the row's first.
    rows = outline * size + row
    number = np.arange(len(rows)) - np.searchsorted(rows, rows)
    found = np.full((len(outlines), size, int(number.max(initial=0)) + 1), np.inf)
    found[outline, row, number] = place
    return found
