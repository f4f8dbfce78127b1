"""Views from other cameras: the same scene, and images that do not depend on those before."""

from pathlib import Path

import numpy as np
import pytest
from blender_scenes.rooms import ONE, ROOM, make_room

from ident3d.errors import UserError

pytestmark = pytest.mark.bpy
MIDDLE = np.zeros(10, np.float32)
TWO = """
import bpy
from ident3d import Factor, Scene
class Two(Scene):
    factors = (Factor("x", range=(-1, 1)),)
    cameras = ("Near", "Far")
    def build(self):
        bpy.ops.mesh.primitive_cube_add()
        bpy.ops.object.light_add(type="SUN")
        bpy.ops.object.camera_add(location=(0, 0, 20))
        bpy.context.object.name = "Far"
        bpy.ops.object.camera_add(location=(0, 0, 8))
        bpy.context.object.name = "Near"
        bpy.context.scene.camera = bpy.context.object
    def pose(self, values):
        bpy.context.scene.camera.location.x = values["x"]
"""


def test_3dident_turns_around_its_stage() -> None:
    from ident3d.blender_scenes.focus import focus_boxes
    from ident3d.blender_scenes.studio import Studio

    with Studio(size=32, quality="draft") as studio:
        published = studio.render(MIDDLE, seed=1)
        shown = {name: studio.render(MIDDLE, seed=1, camera=name) for name in ("left", "front", "right", "back")}
        np.testing.assert_array_equal(shown["front"], published)
        assert len({image.tobytes() for image in shown.values()}) == 4
        np.testing.assert_array_equal(studio.render(MIDDLE, seed=1), published)
        # What is far to the right seen from the front is near seen from the right, and on the left seen from behind.
        aside = np.array([0, 2.5, *[0] * 8], np.float32)
        boxes = {}
        for name in shown:
            studio.pose(aside, camera=name)
            boxes[name] = focus_boxes(studio.scene.focus(), 32)[0]
        assert boxes["front"].left > boxes["back"].left + 4
        width = {name: box.right - box.left for name, box in boxes.items()}
        assert width["right"] > width["left"] + 2
        with pytest.raises(UserError, match="'right'"):
            studio.render(MIDDLE, seed=0, camera="rigth")
    with Studio(size=32, quality="draft") as studio:
        np.testing.assert_array_equal(studio.render(MIDDLE, seed=1, camera="right"), shown["right"])


def test_a_scene_offers_its_cameras_and_poses_its_own() -> None:
    from ident3d.blender_scenes.own_file import own_scene
    from ident3d.blender_scenes.studio import Studio
    from ident3d.blender_scenes.try_scene import try_scene

    assert try_scene("Two", TWO)[1] == ("Near", "Far")
    # A factor that shows in one of the cameras alone has an effect.
    aside = TWO.replace("1)),)", "1)), Factor('size', range=(0.5, 1)))").replace(
        "    def pose(self, values):",
        """        bpy.ops.mesh.primitive_cube_add(location=(4.5, 0, 0))
        self.aside = bpy.context.object
        bpy.context.scene.camera.data.lens = 90
    def pose(self, values):
        self.aside.scale.z = values["size"]""",
    )
    assert try_scene("Two", aside)[0].names == ("x", "size")
    with pytest.raises(UserError, match="size has no effect on the image"):
        try_scene("Two", aside.replace('("Near", "Far")', '("Near",)'))
    with Studio(own_scene("Two", TWO), size=24, quality="draft") as studio:
        first = studio.render([0.5], seed=0, camera="Near")
        far = studio.render([-1], seed=0, camera="Far")
        np.testing.assert_array_equal(studio.render([0.5], seed=0, camera="Near"), first)
        # The pose moves the camera that the scene was built with, not the one that was looked through last.
        np.testing.assert_array_equal(studio.render([0.5], seed=0, camera="Far"), far)
    with pytest.raises(UserError, match="'Far'"):
        try_scene("Two", TWO.replace('("Near", "Far")', '("Near", "Farr")'))
    with pytest.raises(UserError, match="tuple of names"):
        try_scene("Two", TWO.replace('("Near", "Far")', '"Near"'))


def test_a_blend_offers_its_cameras_unless_a_factor_chooses(tmp_path: Path) -> None:
    from ident3d.blender_scenes.try_scene import try_scene

    blend = make_room(tmp_path / "room.blend")
    assert set(try_scene("Room", ONE, blend)[1]) == {"Front", "Top"}
    assert try_scene("Room", ROOM, blend)[1] == ()
