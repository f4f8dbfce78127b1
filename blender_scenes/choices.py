"""What a studio can be asked for by name. Importable without bpy: a process that hands out jobs must not load it."""

from typing import Final

RENDERER: Final = 1  # raised with every change of code that changes a pixel of some image
MATERIAL_NAMES: Final = ("rubber", "metal")
GPUS: Final = ("optix", "cuda", "hip", "metal")  # in the order in which "auto" tries them
DEVICES: Final = ("cpu", *GPUS, "auto")
