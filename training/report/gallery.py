"""Rows of images for the report: pairs, neighbours in code space, and walks along single codes."""

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.loaders.cards.contact_sheet import picture_of
from ident3d.loaders.datasets.image_dataset import ImageDataset

# A picture's width in pixels of the page.
SIDE = 96
Codes = NDArray[np.float64]
Numbers: TypeAlias = Sequence[int] | NDArray[np.int64]


def data_picture(pixels: NDArray[np.uint8], title: str = "") -> str:
    """Return an image as a data address, no larger than it is shown."""
    image = picture_of(pixels)
    if image.width > SIDE:
        image = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    buffer = io.BytesIO()
    image.save(buffer, "png")
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(title)}" title="{escape(title)}" src="data:image/png;base64,{data}">'


def row(images: ImageDataset, numbers: Numbers, title: str, titles: Sequence[str] = ()) -> str:
    """Return a row of images by number, with a title each that shows under the pointer."""
    names = titles or [f"image {number}" for number in numbers]
    return row_of(images.images(np.asarray(numbers)), title, names)


def row_of(pixels: NDArray[np.uint8], title: str, titles: Sequence[str]) -> str:
    """Return a row of pictures (N, H, W, C), with a title each."""
    shown = "".join(data_picture(one, name) for one, name in zip(pixels, titles, strict=True))
    return f'<div class="row"><span>{escape(title)}</span><div>{shown}</div></div>'


def pair_rows(images: ImageDataset, anchors: Numbers, positives: Numbers) -> str:
    """Return anchors in the first row, and their positives below them."""
    return row(images, anchors, "anchor z") + row(images, positives, "positive z̃")


def neighbour_rows(images: ImageDataset, codes: Codes, some: Sequence[int], count: int = 6) -> str:
    """Return some images, each followed by those with the nearest codes, in units of each code's spread."""
    # In units of the spread no code outweighs the others by its scale; the last term keeps a collapsed code at 0.
    units = codes / (codes.std(0) + 1e-12)
    rows = []
    for number in some:
        order = np.argsort(((units - units[number]) ** 2).sum(1), kind="stable")
        near = [int(i) for i in order if i != number][:count]
        rows.append(row(images, [number, *near], f"image {number}"))
    return "".join(rows)


def walk_rows(images: ImageDataset, codes: Codes, names: Sequence[str], assignment: Sequence[int]) -> str:
    """Return for each latent with a code images from low to high in that code, the other codes near their middle."""
    units = (codes - np.median(codes, 0)) / (codes.std(0) + 1e-12)
    rows = []
    for name, k in zip(names, assignment, strict=True):
        if k < 0:
            continue
        # Images are chosen and none is made. So each is a compromise: the code must be near its target, which counts
        # three times, and the other codes near their medians. No image is shown twice in a row.
        others = (np.delete(units, k, 1) ** 2).mean(1)
        found: list[int] = []
        for target in np.quantile(units[:, k], np.linspace(0.02, 0.98, 7)):
            cost = others + (3 * (units[:, k] - target)) ** 2
            cost[found] = np.inf
            found.append(int(np.argmin(cost)))
        rows.append(row(images, found, f"h{k} ↔ {name}", [f"h{k} = {codes[i, k]:.2f}" for i in found]))
    return "".join(rows)
