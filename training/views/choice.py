"""What may happen to an image, by name: what settings check before anything is built. No torch."""

from dataclasses import dataclass, replace
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


NOTHING = Augmentation(crop=None, flip=0, jitter=None, grey=0, blur=0)
# What each name changes. Rotation goes with all others.
CHANGES: Final[dict[str, dict[str, Any]]] = {
    "simclr": {name: value for name, value in vars(Augmentation()).items() if name != "rotate"},
    "crop-small": {"crop": (0.08, 1.0), "flip": 0.5},
    "crop-large": {"crop": (0.8, 1.0), "flip": 0.5},
    "colour": {"jitter": Augmentation.jitter, "grey": Augmentation.grey},
    "rotation": {"rotate": True},
}


def augmentation(names: str) -> Augmentation:
    """Return the augmentation of these names.

    simclr is all that SimCLR does; crop-small keeps 8 to 100 % of the area and crop-large 80 to 100 %, both flip.

    Args:
        names: simclr, crop-small, crop-large, colour and rotation, joined by +.

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
