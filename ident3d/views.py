"""From a loader's uint8 images to an encoder's input: normalised pixels, and two augmentations of each image."""

from ident3d.public import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
