"""Images as a few large pictures, the sheets, which hold them in rows and fit into a page."""

import base64
import io
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.errors import UserError
from ident3d.loaders.cards.contact_sheet import picture_of
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.progress import progress_bar

# A sheet's width and height in pixels, at most: a browser decodes one in an instant.
SHEET: Final = 1024
LOSSLESS: Final = 100
# WebP's qualities, the best first. Lossless is for pictures of few colours, such as sprites.
QUALITIES: Final = (LOSSLESS, 90, 80, 65, 50, 35)
# Above so many bytes, lossless sheets are not worth their size.
LARGEST_LOSSLESS: Final = 3_000_000


@dataclass(frozen=True)
class Sheets:
    """WebP pictures with so many images of `size` pixels in a row and in a column; images follow one another by row."""

    pictures: tuple[bytes, ...]
    size: int
    side: int
    quality: int

    @property
    def addresses(self) -> list[str]:
        """The pictures as data addresses."""
        return [f"data:image/webp;base64,{base64.b64encode(picture).decode()}" for picture in self.pictures]


def tiles_of(images: ImageDataset, numbers: NDArray[np.int64], size: int, *, show: bool) -> NDArray[np.uint8]:
    """Return the images with these numbers (n, size, size, channels), averaged down to the size."""
    tiles = np.empty((len(numbers), size, size, images.shape[2]), np.uint8)
    with progress_bar(len(numbers), "images", show=show) as bar:
        for rows in np.array_split(np.arange(len(numbers)), -(-len(numbers) // 256)):
            for row, pixels in zip(rows, images.images(numbers[rows]), strict=True):
                picture = picture_of(pixels)
                if picture.width != size:
                    picture = picture.resize((size, size), Image.Resampling.BOX)
                tiles[row] = np.asarray(picture).reshape(tiles.shape[1:])
            bar.update(len(rows))
    return tiles


def make_sheets(tiles: NDArray[np.uint8], budget: int) -> Sheets | None:
    """Return sheets of the tiles in the best quality in which they have at most `budget` bytes; None if none has."""
    size = tiles.shape[1]
    side = max(1, SHEET // size)
    parts = [tiles[first : first + side * side] for first in range(0, len(tiles), side * side)]
    for quality in QUALITIES:
        allowed = min(budget, LARGEST_LOSSLESS) if quality == LOSSLESS else budget
        pictures: list[bytes] = []
        for part in parts:
            pictures.append(encode_sheet(part, side, quality))
            # All sheets but the last are full, so that one tells soon enough what all of them will take.
            if sum(map(len, pictures)) * len(tiles) > 1.1 * allowed * min(len(tiles), len(pictures) * side * side):
                break
        if len(pictures) == len(parts) and sum(map(len, pictures)) <= allowed:
            return Sheets(tuple(pictures), size, side, quality)
    return None


def encode_sheet(tiles: NDArray[np.uint8], side: int, quality: int) -> bytes:
    """Return a WebP picture of these tiles in rows of `side`."""
    size = tiles.shape[1]
    rows = -(-len(tiles) // side)
    sheet = np.zeros((rows * side, *tiles.shape[1:]), np.uint8)
    sheet[: len(tiles)] = tiles
    # (rows, side, size, size, c) → (rows · size, side · size, c)
    pixels = sheet.reshape(rows, side, size, size, -1).swapaxes(1, 2).reshape(rows * size, side * size, -1)
    buffer = io.BytesIO()
    picture_of(pixels).save(buffer, "webp", lossless=quality == LOSSLESS, quality=quality, method=4)
    return buffer.getvalue()


def check_size(size: int) -> None:
    """Raise UserError for a width that no page shows."""
    if not 8 <= size <= SHEET // 2:
        raise UserError(f"Images on a page have 8 to {SHEET // 2} pixels, not {size}.")
