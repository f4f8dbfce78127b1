"""An image depends on its own row alone: what Blender is not told of is rendered, a pose with a memory is refused."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ident3d.blender_scenes.own_file import own_scene
from ident3d.blender_scenes.try_scene import try_scene
from ident3d.errors import UserError

pytestmark = pytest.mark.bpy
# A plane that gives off the light of a node's colour, seen from above.
STAGE = """
import bpy
from ident3d import Factor, Focus, Scene
class Plane(Scene):
    factors = (Factor("x", range=(0.2, 1)),)
    def build(self):
        bpy.ops.object.camera_add(location=(0, 0, 4))
        bpy.context.scene.camera = bpy.context.object
        bpy.ops.mesh.primitive_plane_add(size=2)
        self.plane = bpy.context.object
        paint = bpy.data.materials.new("paint")
        paint.use_nodes = True
        self.plane.data.materials.append(paint)
        self.tree = paint.node_tree
        self.glow = self.tree.nodes.new("ShaderNodeEmission")
        out = next(node for node in self.tree.nodes if node.type == "OUTPUT_MATERIAL")
        self.tree.links.new(self.glow.outputs[0], out.inputs["Surface"])
        BUILD
    def pose(self, values):
        POSE
"""
PROPERTY = (
    """self.plane["red"] = 0.5
        node = self.tree.nodes.new("ShaderNodeAttribute")
        node.attribute_type, node.attribute_name = "OBJECT", "red"
        self.tree.links.new(node.outputs["Fac"], self.glow.inputs[0])""",
    'self.plane["red"] = values["x"]',
)
PIXELS = (
    """self.image = bpy.data.images.new("own", 4, 4)
        node = self.tree.nodes.new("ShaderNodeTexImage")
        node.image = self.image
        self.tree.links.new(node.outputs[0], self.glow.inputs[0])""",
    'self.image.pixels[:] = [values["x"]] * 64; self.image.update()',
)
MODIFIER = (
    """nodes = bpy.data.node_groups.new("size", "GeometryNodeTree")
        nodes.interface.new_socket("mesh", in_out="INPUT", socket_type="NodeSocketGeometry")
        nodes.interface.new_socket("size", in_out="INPUT", socket_type="NodeSocketFloat")
        nodes.interface.new_socket("mesh", in_out="OUTPUT", socket_type="NodeSocketGeometry")
        kinds = ("NodeGroupInput", "GeometryNodeTransform", "NodeGroupOutput")
        start, scale, end = (nodes.nodes.new(kind) for kind in kinds)
        nodes.links.new(start.outputs[0], scale.inputs["Geometry"])
        nodes.links.new(start.outputs[1], scale.inputs["Scale"])
        nodes.links.new(scale.outputs[0], end.inputs[0])
        self.modifier = self.plane.modifiers.new("size", "NODES")
        self.modifier.node_group = nodes""",
    'self.modifier["Socket_1"] = values["x"]',
)
WAYS = {"property": PROPERTY, "pixels": PIXELS, "modifier": MODIFIER}


def text(build: str, pose: str) -> str:
    return STAGE.replace("BUILD", build).replace("POSE", pose)


def images(code: str, *rows: float) -> list[np.ndarray[Any, Any]]:
    from ident3d.blender_scenes.studio import Studio

    with Studio(own_scene("Plane", code), size=16, quality="draft") as studio:
        return [studio.render([x], seed=0) for x in rows]


@pytest.mark.parametrize("way", WAYS)
def test_what_blender_is_not_told_of_is_rendered(way: str) -> None:
    code = text(*WAYS[way])
    first, second, again = images(code, 0.2, 1, 0.2)
    (fresh,) = images(code, 1)
    assert first.mean() < 0.8 * second.mean()
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(second, fresh)
    try_scene("Plane", code)


@pytest.mark.parametrize(
    "pose",
    [
        'self.plane.location.x += values["x"] / 3',
        'self.plane.scale.x = 2 if values["x"] > 0.9 else self.plane.scale.x',
        "import random; self.plane.location.x = random.random()",
    ],
)
def test_a_pose_with_a_memory_is_refused(pose: str) -> None:
    with pytest.raises(UserError, match=r"Plane at x=.* depends on the images before it"):
        try_scene("Plane", text("pass", pose))


BALL = """
import bpy
from ident3d import Factor, Scene
from ident3d.blender_scenes.studio import Studio
class Ball(Scene):
    factors = (Factor("x", range=(-1, 1)),)
    def build(self):
        bpy.ops.object.camera_add(location=(0, 0, 5))
        bpy.context.scene.camera = bpy.context.object
        bpy.ops.object.light_add(type="SUN", rotation=(1, 0, 0))
        bpy.ops.mesh.primitive_uv_sphere_add(segments=64, ring_count=32)
        self.ball = bpy.context.object
        self.ball.data.shade_smooth()
    def pose(self, values):
        self.ball.location.x = values["x"]
with Studio(Ball(), size=32, quality="truth") as studio:
    print("last bits", studio.render_linear([0.3], seed=0).tobytes().hex())
"""


def test_two_processes_agree_to_the_last_bit_about_a_smooth_ball() -> None:
    """Blender orders the faces of its UV sphere by their addresses, which differ between processes."""
    seen = set()
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", BALL], capture_output=True, text=True, check=True)
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("last bits")]
        seen.add(line)
    assert len(seen) == 1
