"""Augmentations by name, as the papers' tables speak of them: names joined by + are done together."""

from dataclasses import replace

from ident3d.errors import unknown
from ident3d.training.views.augmentations import Augmentation

NOTHING = Augmentation(crop=None, flip=0, jitter=None, grey=0, blur=0)
NAMES = ("simclr", "crop-small", "crop-large", "colour", "rotation")


def augmentation(names: str) -> Augmentation:
    """simclr is all that SimCLR does; crop-small keeps 8 to 100 % of the area and crop-large 80 to 100 %, both flip."""
    how = NOTHING
    for name in names.split("+"):
        if name == "simclr":
            how = replace(Augmentation(), rotate=how.rotate)
        elif name in ("crop-small", "crop-large"):
            how = replace(how, crop=(0.08 if name == "crop-small" else 0.8, 1.0), flip=0.5)
        elif name == "colour":
            how = replace(how, jitter=Augmentation.jitter, grey=Augmentation.grey)
        elif name == "rotation":
            how = replace(how, rotate=True)
        else:
            raise unknown("augmentation", name, NAMES)
    return how
