"""A picture of the classes at raw latents 0."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from ident3d.latents.exact.names import CLASSES, NAMES
from ident3d.latents.worlds import World
from ident3d.loaders.cards.contact_sheet import contact_sheet
from ident3d.shapes.rendering import load_meshes, mesh_hashes

# Raw latents. With all at 0 the object would be red in red light on red ground.
HUE = {"object_hue": 0.1, "spotlight_hue": 0.5, "ground_hue": 0.6}


def picture(names: Sequence[str] = CLASSES, *, size: int = 224, quality: str = "standard") -> Image.Image:
    """Return the classes side by side, upright in the middle of the scene."""
    from ident3d.blender_scenes.studio import Studio
    from ident3d.blender_scenes.three_d_ident import ThreeDIdent

    raw = np.array([[HUE.get(name, 0.0) for name in NAMES]], np.float32)
    world = World("causal3dident")
    (scene_latents,) = world.to_scene(raw)
    with Studio(ThreeDIdent(world, meshes=load_meshes(mesh_hashes(names))), size=size, quality=quality) as studio:
        images = [studio.render(scene_latents, seed=0, class_name=name) for name in names]
    return contact_sheet(images, min(4, len(images)), captions=list(names))
