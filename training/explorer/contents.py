"""What a page's script is given: the sheets, and the latents, codes and further columns of their images."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.training.explorer.choose import TOGETHER
from ident3d.training.explorer.codes import ShownCodes
from ident3d.training.explorer.coordinates import Coordinates
from ident3d.training.explorer.page import packed
from ident3d.training.explorer.sheets import LOSSLESS, Sheets

# Images this small are shown with sharp edges.
SHARP: Final = 32
SHOWN_COLUMNS: Final = (*TOGETHER, *TOGETHER.values(), "environment")


def contents(
    images: ImageDataset,
    coordinates: Coordinates,
    numbers: NDArray[np.int64],
    sheets: Sheets,
    codes: ShownCodes | None,
) -> dict[str, Any]:
    """Return all that the page of these images shows, in JSON types; tables are base64 of numbers."""
    found: dict[str, Any] = {
        "count": len(numbers),
        "size": sheets.size,
        "side": sheets.side,
        "sharp": sheets.size <= SHARP,
        "sheets": sheets.addresses,
        "numbers": packed(numbers, "i4"),
        "axes": coordinates.as_dict(numbers),
        "latents": packed(coordinates.table[numbers], "f4"),
        "codes": None if codes is None else codes.as_dict() | {"values": packed(codes.values, "f4")},
        "columns": {},
        "environments": [],
    }
    for name in shown_columns(images):
        found["columns"][name] = packed(images.column(name)[numbers], "f8")
    if "environment" in images.columns:
        # Environments may have any numbers, and some no image here: the page has those that it shows, from 0.
        known = images.environments
        there, place = np.unique(images.column("environment")[numbers], return_inverse=True)
        found["columns"]["environment"] = packed(place, "f8")
        found["environments"] = [known[k] if 0 <= k < len(known) else f"environment {k}" for k in there.tolist()]
    return found


def shown_columns(images: ImageDataset) -> list[str]:
    """Return the further columns that a page shows of these images."""
    return [name for name in SHOWN_COLUMNS if name in images.columns]


def megabytes(count: int) -> str:
    """Return a number of bytes as people read it: 12.3 MB, 45 kB."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def about(images: ImageDataset, numbers: NDArray[np.int64], sheets: Sheets) -> str:
    """Say which images the page shows, how large, and what it is made of."""
    how = "all" if len(numbers) == len(images) else f"{len(numbers):,} of {len(images):,}"
    spread = ""
    if len(numbers) < len(images):
        whole = next((f"whole {name}s " for name in TOGETHER if name in images.columns), "")
        spread = f", {whole}spread evenly,"
    quality = "lossless WebP" if sheets.quality == LOSSLESS else f"WebP of quality {sheets.quality}"
    size = f"{sheets.size}×{sheets.size} pixels, {megabytes(sum(map(len, sheets.pictures)))} of {quality}"
    return f"This page shows {how} images{spread} at {size}. It holds all that it shows and loads nothing."
