"""Names that a studio takes. They load no bpy, because a process that hands out jobs must not load it."""

from typing import Final

# Raise this with every change of code that changes a pixel of some image.
RENDERER: Final = 1
MATERIAL_NAMES: Final = ("rubber", "metal")
# "auto" tries them in this order.
GPUS: Final = ("optix", "cuda", "hip", "metal")
# Of 3DIdent and Causal-3DIdent: the published one, and those a quarter turn each around the vertical axis.
CAMERAS: Final = ("front", "right", "back", "left")
DEVICES: Final = ("cpu", *GPUS, "auto")
