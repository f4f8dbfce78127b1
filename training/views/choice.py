"""What may happen to an image, by name: what settings check before anything is built. No torch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from ident3d.errors import UserError, check_known


@dataclass(frozen=True)
class Augmentation:
    """What may happen to an image; the defaults are SimCLR's. None or 0 leaves a step out.

    crop: the share of the area that a random crop keeps, from … to, resized to the image's size.
    flip: probability of a mirror image.
    jitter: strengths of brightness, contrast, saturation and hue; applied with probability `jitter_probability`.
    grey, blur: probabilities. rotate: a pair's two views are turned by two different multiples of 90°.
    """

    crop: tuple[float, float] | None = (0.08, 1.0)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] | None = (0.8, 0.8, 0.8, 0.2)
    jitter_probability: float = 0.8
    grey: float = 0.2
    blur: float = 0.5
    rotate: bool = False

    def __post_init__(self) -> None:
        for name in ("flip", "jitter_probability", "grey", "blur"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"The augmentation's {name} is a probability, not {getattr(self, name):g}.")
        if self.crop is not None and not 0 < self.crop[0] <= self.crop[1] <= 1:
            raise UserError(f"A crop keeps between 0 and all of the area, not {self.crop[0]:g} to {self.crop[1]:g}.")
        if self.jitter is not None and not (
            len(self.jitter) == 4 and all(0 <= s < inf for s in self.jitter) and self.jitter[3] <= 0.5
        ):
            raise UserError(f"A jitter has four strengths from 0 on, that of the hue up to 0.5, not {self.jitter}.")


NOTHING = Augmentation(crop=None, flip=0, jitter=None, grey=0, blur=0)
# For autoencoders, which need no second view.
UNCHANGED: Final = "none"
# What each name changes. Rotation goes with all others.
CHANGES: Final[dict[str, dict[str, Any]]] = {
    "simclr": {name: value for name, value in vars(Augmentation()).items() if name != "rotate"},
    "crop-small": {"crop": (0.08, 1.0), "flip": 0.5},
    "crop-medium": {"crop": (0.2, 1.0), "flip": 0.5},
    "crop-large": {"crop": (0.8, 1.0), "flip": 0.5},
    "colour": {"jitter": Augmentation.jitter, "grey": Augmentation.grey},
    "blur": {"blur": Augmentation.blur},
    "rotation": {"rotate": True},
    UNCHANGED: {},
}

# One step alone, on every image, as strong as SimCLR's: what a read-out tells from images as they are.
SINGLE: Final[dict[str, Augmentation]] = {
    "grey": replace(NOTHING, grey=1.0),
    "brightness": replace(NOTHING, jitter=(0.8, 0, 0, 0), jitter_probability=1.0),
    "contrast": replace(NOTHING, jitter=(0, 0.8, 0, 0), jitter_probability=1.0),
    "saturation": replace(NOTHING, jitter=(0, 0, 0.8, 0), jitter_probability=1.0),
    "hue": replace(NOTHING, jitter=(0, 0, 0, 0.2), jitter_probability=1.0),
    "crop": replace(NOTHING, crop=(0.2, 1.0)),
    "blur": replace(NOTHING, blur=1.0),
}
# These leave grey images as they are.
OF_COLOUR: Final = ("grey", "hue", "saturation")


def single_augmentations(names: Iterable[str], channels: int) -> dict[str, Augmentation]:
    """Return the single steps of these names, for images of so many channels; raise UserError for colours of grey."""
    found = {}
    for name in names:
        check_known("single augmentation", name, SINGLE)
        if channels == 1 and name in OF_COLOUR:
            raise UserError(f"These images are grey, and {name} changes colours: leave it away.")
        found[name] = SINGLE[name]
    return found


def check_colour(names: str, channels: int) -> None:
    """Raise UserError if the augmentation `colour` is asked for on grey images.

    `simclr` is not refused: of its steps of colour those of brightness and contrast change grey images too.
    """
    if channels == 1 and "colour" in names.split("+"):
        raise UserError("These images are grey, and --augment colour is for colours; take simclr, a crop or blur.")


def augmentation(names: str) -> Augmentation:
    """Return the augmentation of these names.

    simclr is all that SimCLR does; crop-small keeps 8 to 100 % of the area, crop-medium 20 to 100 % and crop-large 80
    to 100 %, and all three flip. A later name overrides an earlier one: simclr+crop-medium is SimCLR's for CIFAR-10.
    Grey images stay grey: of simclr's steps hue, saturation and the step to grey leave them as they are, while crop,
    flip, brightness, contrast and blur change them. colour alone is refused on grey images by train and diagnose.

    Args:
        names: simclr, crop-small, crop-medium, crop-large, colour, blur and rotation, joined by +, or none.

    Returns:
        An `Augmentation`.

    Example:
        >>> from ident3d.views import augmentation
        >>> augmentation("crop-large+rotation").crop
        (0.8, 1.0)
    """
    how = NOTHING
    for name in names.split("+"):
        check_known("augmentation", name, CHANGES)
        how = replace(how, **CHANGES[name])
    return how
