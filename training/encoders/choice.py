"""Output spaces, image encoders and perceptrons by name: what settings check before anything is built. No torch."""

import re
from typing import Final

from ident3d.errors import UserError, check_known

SPACES: Final = ("box", "sphere", "unbounded")
# Encoders of the papers for images of 64 pixels in [0, 1], each with a decoder of its own.
WITH_DECODER: Final = ("higgins", "locatello")
# Narrower images leave conv nothing to halve, and a ResNet, whose strides make 32, next to nothing to see.
SMALLEST_IMAGE: Final = 8
IMAGE_ENCODERS: Final = ("conv", *WITH_DECODER, "resnet18", "resnet34", "resnet50")
PAPERS: Final = "papers"


def check_image_encoder(name: str) -> None:
    """Raise UserError if there is no such encoder of ours; what follows a + is checked when it is built."""
    if is_widths(name):
        hidden_widths(name, 0)
    else:
        check_known("encoder", name.partition("+")[0], [*IMAGE_ENCODERS, "512x2", "package.module:name"])


def is_widths(name: str) -> bool:
    """Return whether a name stands for a perceptron of its hidden widths, such as 512x2."""
    return name[:1].isdigit()


def check_image_size(name: str, size: int) -> None:
    """Raise UserError if an encoder of ours is to be trained on images that it can make no sense of."""
    if ":" not in name and size < SMALLEST_IMAGE:
        raise UserError(
            f"The encoder {name} takes images of at least {SMALLEST_IMAGE} pixels, not {size}: raise --size, or take "
            "larger images or an encoder of your own."
        )


def check_decoder(name: str) -> None:
    """Raise UserError if there is no such decoder."""
    if is_widths(name):
        hidden_widths(name, 0)
    else:
        check_known("decoder", name, [*WITH_DECODER, "512x2"])


def usual_decoder(encoder: str) -> str:
    """Return the name of the decoder that goes with an encoder: its own, or that of most papers."""
    return encoder if encoder in WITH_DECODER or is_widths(encoder) else WITH_DECODER[0]


def hidden_widths(name: str, inputs: int) -> list[int]:
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
