"""3DIdent, its periodic form and Causal-3DIdent: one stage, moved and recoloured by ten values."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ident3d.blender_scenes.blender import bpy, current_scene, mathutils
from ident3d.blender_scenes.choices import CAMERAS
from ident3d.blender_scenes.materials import MATERIALS
from ident3d.blender_scenes.meshes import new_mesh
from ident3d.blender_scenes.scene import Focus, Scene, Values
from ident3d.blender_scenes.teapot import teapot
from ident3d.errors import check_known
from ident3d.latents.exact.hues import hue_to_rgb
from ident3d.latents.worlds import World

# H: the largest side of the teapot's bounding box after scaling, in the pose with no rotation.
HEIGHT = 4.442117
SCALE = 1.5
_LENS, _SENSOR = 35.0, 50.0
FOCAL = _LENS / _SENSOR

_SPOT_WATTS = 3000.0
_SATURATION = {"object": 1.0, "spot": 0.8, "ground": 0.6}
_PLAIN = World()
# The camera object.
PUBLISHED = "camera"


class ThreeDIdent(Scene):
    """A teapot on a ground under a sun, an area light and a coloured spotlight.

    Args:
        world: 3dident, 3dident-periodic or causal3dident, with its ranges and its hue rule.
        material: rubber or metal, of object and ground.
        meshes: Class → the vertices before the object's scale of 1.5, and the faces, of its object besides the teapot.
    """

    def __init__(
        self,
        world: World = _PLAIN,
        *,
        material: str = "rubber",
        meshes: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    ) -> None:
        check_known("material", material, MATERIALS)
        self.factors, self.cameras = world.factors.factors, CAMERAS
        self.material, self.wrapped_hues = material, world.hues == "wrapped"
        self.meshes = {"Teapot": teapot(), **(meshes or {})}

    def build(self) -> None:
        """Fill the empty scene: camera, sun, area light, the spotlight as equal parts, ground and object."""
        material = MATERIALS[self.material]()
        _camera(PUBLISHED)
        sun = _light("SUN", "sun", 0.5)
        sun.angle = 0.199337
        _link("sun", sun, 25.82317)
        area = _light("AREA", "area", 39.26991)
        area.shape, area.size, area.spread = "SQUARE", 1.0, np.pi
        _link("area", area, 7.0)
        spot = _light("SPOT", "spot", _SPOT_WATTS / self.light_parts)
        spot.spot_size, spot.spot_blend, spot.shadow_soft_size, spot.use_soft_falloff = np.radians(35.0), 0.1, 0.5, True
        self.spots = [_link(f"spot {part}", spot) for part in range(self.light_parts)]

        plane = bpy.data.meshes.new("ground")
        plane.from_pydata([(-750, -750, 0), (750, -750, 0), (750, 750, 0), (-750, 750, 0)], [], [(0, 1, 2, 3)])
        plane.materials.append(material)
        self.ground = _link("ground", plane, -HEIGHT)
        self.actor = _link("actor", bpy.data.meshes.new("nothing"))
        self.actor.rotation_mode = "XYZ"
        self.actor.scale = (SCALE, SCALE, SCALE)
        self.shapes = {name: new_mesh(name, *mesh, material) for name, mesh in self.meshes.items()}

    def pose(self, values: Values) -> None:
        """Move and recolour by the ten values and the class: the object goes to (x, y, z + H/2).

        The spotlight goes to (4 sin s, 4 cos s, 6 + H), aimed at the object's origin.
        """
        name = values.get("class", "Teapot")
        check_known("mesh", name, self.shapes)
        x, y, z, phi, theta, psi, s, *hues = (values[factor.name] for factor in self.factors)
        colours = [
            hue_to_rgb(hue, saturation, wrapped=self.wrapped_hues)
            for hue, saturation in zip(hues, _SATURATION.values(), strict=True)
        ]
        target = mathutils.Vector((x, y, z + HEIGHT / 2))
        self.actor.data = self.shapes[name]
        self.actor.location = target
        self.actor.rotation_euler = mathutils.Euler((phi, theta, psi), "XYZ")
        self.actor.color = (*colours[0], 1.0)
        self.ground.color = (*colours[2], 1.0)
        place = mathutils.Vector((4 * np.sin(s), 4 * np.cos(s), 6 + HEIGHT))
        for spot in self.spots:
            spot.location = place
            spot.rotation_euler = (target - place).to_track_quat("-Z", "Y").to_euler()
            light: Any = spot.data
            light.color = tuple(colours[1])

    def look(self, camera: str) -> None:
        """See the stage from the published camera, "front", or a quarter turn further around it for each next name."""
        quarters = CAMERAS.index(camera)
        name = f"{PUBLISHED}{quarters or ''}"
        if name not in bpy.data.objects:
            _camera(name, quarters)
        current_scene().camera = bpy.data.objects[name]

    def focus(self) -> Focus:
        """Return the object and its shadow on the ground; elsewhere the ground is lit evenly, and a few samples do."""
        return Focus([self.actor], self.spots[0], -HEIGHT)


def _link(name: str, data: bpy.types.ID | None, height: float = 0.0) -> bpy.types.Object:
    thing = bpy.data.objects.new(name, data)
    thing.location = (0.0, 0.0, height)
    current_scene().collection.objects.link(thing)
    return thing


def _camera(name: str, quarters: int = 0) -> None:
    data = bpy.data.cameras.new(name)
    data.lens, data.sensor_width, data.sensor_fit = _LENS, _SENSOR, "HORIZONTAL"
    data.clip_start, data.clip_end = 0.1, 100.0
    camera = _link(name, data)
    # The camera is at (8, 0, 8) and looks down at 45 degrees along -x. Written as a matrix this is exact.
    half = 0.5**0.5
    x, y = [0, -half, half, 8], [1.0, 0, 0, 0]
    for _ in range(quarters):
        x, y = [-number for number in y], x
    camera.matrix_basis = mathutils.Matrix((x, y, (0, half, half, 8), (0, 0, 0, 1)))
    current_scene().camera = camera


def _light(kind: Literal["SUN", "AREA", "SPOT"], name: str, energy: float) -> Any:
    data: Any = bpy.data.lights.new(name, kind)
    data.energy = energy
    data.color = (1.0, 1.0, 1.0)
    data.use_shadow = True
    return data
