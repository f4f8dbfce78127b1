"""Render and take Cycles' float pixels from memory.

Blender's "Render Result" image cannot be read, but Cycles' render engine is a Python class whose render method runs
when the samples are done; there its result can be copied out. No file, no compositor, no colour management.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.blender import bpy

_COMBINED = "Combined"
_taken: list[NDArray[np.float32]] = []


@cache
def _hook() -> None:
    """Let Cycles' engine class keep a copy of what it renders."""
    # Every studio of a process uses the same class, so the cache above keeps it from being wrapped twice.
    engine: Any = bpy.types.RenderEngine.bl_rna_get_subclass_py("CYCLES")
    original = engine.render

    def render(self: Any, depsgraph: Any) -> None:
        original(self, depsgraph)
        result = self.get_result()
        pixels = np.empty((result.resolution_y, result.resolution_x, 4), dtype=np.float32)
        result.layers[0].passes[_COMBINED].rect.foreach_get(pixels.reshape(-1))
        _taken.append(pixels)

    engine.render = render


def render_linear() -> NDArray[np.float32]:
    """Render the scene as it is; return scene-linear RGB, (height, width, 3), row 0 at the top."""
    _hook()
    _taken.clear()
    bpy.ops.render.render()
    if not _taken:
        raise RuntimeError("Cycles gave no image.")
    return _taken.pop()[::-1, :, :3]
