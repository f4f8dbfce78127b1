"""Pictures of many images at once: a grid with captions."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ident3d.errors import UserError
from ident3d.loaders.format.files import write_atomically

GAP = 4
INK, PAPER = (40, 40, 40), (255, 255, 255)
# Smaller images are enlarged by a whole factor, so that pixels stay pixels.
SMALLEST_SIDE = 128


def contact_sheet(
    images: Sequence[NDArray[np.uint8]],
    columns: int,
    *,
    captions: Sequence[str] = (),
    column_titles: Sequence[str] = (),
    row_titles: Sequence[str] = (),
) -> Image.Image:
    """Return the images in a grid, row by row, each above its caption, with titles of columns and rows."""
    # An image smaller than its caption's letters could not be judged, so that small ones are enlarged.
    factor = -(-SMALLEST_SIDE // images[0].shape[1])
    side = images[0].shape[1] * factor
    text_size = max(10, side // 18)
    font = text_font(text_size)
    line = round(text_size * 1.4)
    lines = max((caption.count("\n") + 1 for caption in captions), default=0)
    words = [text for caption in captions for text in caption.split("\n")] + list(column_titles)
    cell_w = max(side, *(round(font.getlength(text)) for text in ["", *words])) + GAP
    cell_h = side + GAP + lines * line + (GAP if lines else 0)
    left = max((round(font.getlength(title)) + 3 * GAP for title in row_titles), default=GAP)
    top = line + 2 * GAP if column_titles else GAP
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (left + columns * cell_w, top + rows * cell_h), PAPER)
    draw = ImageDraw.Draw(sheet)
    for i, image in enumerate(images):
        x, y = left + i % columns * cell_w, top + i // columns * cell_h
        sheet.paste(picture_of(np.repeat(np.repeat(image, factor, 0), factor, 1)), (x, y))
        if captions:
            draw.multiline_text((x, y + side + 1), captions[i], INK, font, spacing=line - text_size)
    for c, title in enumerate(column_titles):
        draw.text((left + c * cell_w + side / 2, top - GAP), title, INK, font, anchor="ms")
    for r, title in enumerate(row_titles):
        draw.text((left - 2 * GAP, top + r * cell_h + side / 2), title, INK, font, anchor="rm")
    return sheet


def picture_of(image: NDArray[np.uint8]) -> Image.Image:
    """Return a stored image (H, W, 1 or 3) as a Pillow image, grey or in colours."""
    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def text_font(size: int) -> ImageFont.FreeTypeFont:
    """Return DejaVu Sans, which is part of matplotlib: Pillow's own font has no Greek letters."""
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), size)


def check_picture_path(path: Path) -> None:
    """Refuse a path that no picture can be saved to, before any work is done."""
    if path.suffix.lower() not in Image.registered_extensions():
        raise UserError(
            f"{path} does not have the ending of a picture; use a name such as {path.stem or 'picture'}.png."
        )
    if not path.absolute().parent.is_dir():
        raise UserError(f"There is no folder {path.absolute().parent} to write {path.name} to.")


def save_picture(image: Image.Image, path: Path) -> None:
    """Save the picture, all of it or nothing, in the format that the path's ending names."""
    check_picture_path(path)
    # Pillow writes as it encodes. From memory the file appears whole, or not at all.
    buffer = io.BytesIO()
    image.save(buffer, Image.registered_extensions()[path.suffix.lower()])
    write_atomically(path, buffer.getvalue())
