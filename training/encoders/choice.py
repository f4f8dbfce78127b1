"""Output spaces, image encoders and perceptrons by name: what settings check before anything is built. No torch."""

import re
from typing import Final

from ident3d.errors import UserError, check_known

SPACES: Final = ("box", "sphere", "unbounded")
IMAGE_ENCODERS: Final = ("conv", "resnet18", "resnet34", "resnet50")
PAPERS: Final = "papers"


def check_image_encoder(name: str) -> None:
    """Raise UserError if there is no such encoder of ours; what follows a + is checked when it is built."""
    check_known("encoder", name.partition("+")[0], [*IMAGE_ENCODERS, "package.module:name"])


def widths(name: str, inputs: int) -> list[int]:
    """Return the hidden widths that a name such as "papers", "256x4" or "100,500x4,100" stands for."""
    if name == PAPERS:
        return [10 * inputs, *[50 * inputs] * 4, 10 * inputs]
    # At most six digits of width and two of depth: a typing mistake must not fill the memory.
    found = [re.fullmatch(r"([1-9]\d{0,5})(?:x([1-9]\d?))?", part) for part in name.split(",")]
    if not all(found):
        raise UserError(
            f"There is no encoder {name!r}; take papers, hidden widths such as 256x4 or 100,500x4,100, or "
            "package.module:name."
        )
    return [int(part[1]) for part in found if part for _ in range(int(part[2] or 1))]
