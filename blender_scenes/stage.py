"""Camera, lights and ground of 3DIdent, and how a scene's ten latents move them."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.blender import bpy, current_scene, mathutils
from ident3d.latents.exact.hues import hue_to_rgb

# H: the largest side of the teapot's bounding box after scaling, in the pose with no rotation.
HEIGHT = 4.442117
SCALE = 1.5
_LENS, _SENSOR = 35.0, 50.0
FOCAL = _LENS / _SENSOR

_SPOT_WATTS = 3000.0
_SATURATION = {"object": 1.0, "spot": 0.8, "ground": 0.6}


class Stage(NamedTuple):
    """What a render may move or recolour."""

    actor: bpy.types.Object
    ground: bpy.types.Object
    spots: tuple[bpy.types.Object, ...]


def _link(name: str, data: bpy.types.ID | None, height: float = 0.0) -> bpy.types.Object:
    thing = bpy.data.objects.new(name, data)
    thing.location = (0.0, 0.0, height)
    current_scene().collection.objects.link(thing)
    return thing


def _camera() -> None:
    data = bpy.data.cameras.new("camera")
    data.lens, data.sensor_width, data.sensor_fit = _LENS, _SENSOR, "HORIZONTAL"
    data.clip_start, data.clip_end = 0.1, 100.0
    camera = _link("camera", data)
    # The camera is at (8, 0, 8) and looks down at 45 degrees along -x. Written as a matrix this is exact.
    half = 0.5**0.5
    camera.matrix_basis = mathutils.Matrix(((0, -half, half, 8), (1, 0, 0, 0), (0, half, half, 8), (0, 0, 0, 1)))
    current_scene().camera = camera


def _light(kind: Literal["SUN", "AREA", "SPOT"], name: str, energy: float) -> Any:
    data: Any = bpy.data.lights.new(name, kind)
    data.energy = energy
    data.color = (1.0, 1.0, 1.0)
    data.use_shadow = True
    return data


def build_stage(material: bpy.types.Material, *, spots: int) -> Stage:
    """Fill the empty scene: camera, sun, area light, the spotlight as `spots` equal parts, ground and actor."""
    _camera()
    sun = _light("SUN", "sun", 0.5)
    sun.angle = 0.199337
    _link("sun", sun, 25.82317)
    area = _light("AREA", "area", 39.26991)
    area.shape, area.size, area.spread = "SQUARE", 1.0, np.pi
    _link("area", area, 7.0)
    spot = _light("SPOT", "spot", _SPOT_WATTS / spots)
    spot.spot_size, spot.spot_blend, spot.shadow_soft_size, spot.use_soft_falloff = np.radians(35.0), 0.1, 0.5, True
    parts = tuple(_link(f"spot {part}", spot) for part in range(spots))

    plane = bpy.data.meshes.new("ground")
    plane.from_pydata([(-750, -750, 0), (750, -750, 0), (750, 750, 0), (-750, 750, 0)], [], [(0, 1, 2, 3)])
    plane.materials.append(material)
    ground = _link("ground", plane, -HEIGHT)
    actor = _link("actor", bpy.data.meshes.new("nothing"))
    actor.rotation_mode = "XYZ"
    actor.scale = (SCALE, SCALE, SCALE)
    return Stage(actor, ground, parts)


def pose(stage: Stage, scene_latents: NDArray[np.float32], *, wrapped_hues: bool) -> None:
    """Move and recolour by (x, y, z, phi, theta, psi, spotlight position s, hues of object, spotlight and ground).

    The object goes to (x, y, z + H/2), the spotlight to (4 sin s, 4 cos s, 6 + H), aimed at the object's origin.
    """
    x, y, z, phi, theta, psi, s, *hues = (float(value) for value in scene_latents)
    colours = [
        hue_to_rgb(hue, saturation, wrapped=wrapped_hues)
        for hue, saturation in zip(hues, _SATURATION.values(), strict=True)
    ]
    target = mathutils.Vector((x, y, z + HEIGHT / 2))
    stage.actor.location = target
    stage.actor.rotation_euler = mathutils.Euler((phi, theta, psi), "XYZ")
    stage.actor.color = (*colours[0], 1.0)
    stage.ground.color = (*colours[2], 1.0)
    place = mathutils.Vector((4 * np.sin(s), 4 * np.cos(s), 6 + HEIGHT))
    for spot in stage.spots:
        spot.location = place
        spot.rotation_euler = (target - place).to_track_quat("-Z", "Y").to_euler()
        light: Any = spot.data
        light.color = tuple(colours[1])
