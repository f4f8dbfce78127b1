"""A .blend whose factors a TOML file maps to data paths: what it shows and refuses, and that nothing of it runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blender_scenes.rooms import ONE, ROOM, evil, make_room

from ident3d.errors import UserError

pytestmark = pytest.mark.bpy
# Where nothing but Blender itself is loaded, the .blend is opened as a trusted one and rendered.
TRUSTED = """
import os, sys, bpy
bpy.ops.wm.open_mainfile(filepath=sys.argv[1], load_ui=False, use_scripts=True)
bpy.context.scene.render.resolution_x = bpy.context.scene.render.resolution_y = 16
bpy.context.scene.render.engine, bpy.context.scene.cycles.samples = "CYCLES", 1
bpy.context.scene.cycles.shading_system = False
bpy.ops.render.render()
os._exit(0)
"""
# Shaders that come compiled, in a material, a group and a camera, and an animation that would let them run.
PROGRAMS = """
bpy.data.node_groups.new("Group", "ShaderNodeTree").use_fake_user = True
for tree in (paint.node_tree, bpy.data.node_groups["Group"]):
    tree.nodes.new("ShaderNodeScript").bytecode = "OpenShadingLanguage 1.00"
camera = bpy.data.cameras["Front"]
camera.type, camera.custom_bytecode = "CUSTOM", "OpenShadingLanguage 1.00"
bpy.context.scene.cycles.shading_system = True
bpy.context.scene.keyframe_insert("cycles.shading_system")
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_room(tmp_path_factory.mktemp("room") / "room.blend")


def tried(blend: bytes, text: str) -> Any:
    from ident3d.blender_scenes.try_scene import try_scene

    return try_scene("Room", text, blend)


def images(blend: bytes, text: str, *rows: list[float]) -> list[np.ndarray[Any, Any]]:
    from ident3d.blender_scenes.blend_scene import BlendScene
    from ident3d.blender_scenes.studio import Studio

    with Studio(BlendScene(blend, text), size=16, quality="draft") as studio:
        return [studio.render(row, seed=0) for row in rows]


def test_programs_of_nodes_and_cameras_are_removed(tmp_path: Path) -> None:
    from ident3d.blender_scenes.blend_file import open_blend
    from ident3d.blender_scenes.blender import bpy

    wicked = make_room(tmp_path / "osl.blend", PROGRAMS)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    open_blend(wicked)
    camera: Any = bpy.data.cameras["Front"]
    assert (camera.type, camera.custom_bytecode) == ("PERSP", "")
    for tree in (bpy.data.materials["Paint"].node_tree, bpy.data.node_groups["Group"]):
        assert tree is not None
        assert "ShaderNodeScript" not in [node.bl_idname for node in tree.nodes]


def test_no_code_of_a_blend_runs(room: bytes, tmp_path: Path) -> None:
    wicked = make_room(tmp_path / "evil.blend", evil(tmp_path / "mark"))
    rows = [[0.5, 1, 600, 0.3, 0, 0, 1, 0], [0, 0, 300, 0, 1, 1, 0, 0]]
    for ours, theirs in zip(images(wicked, ROOM, *rows), images(room, ROOM, *rows), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "has a driver in Python" in tried(wicked, ONE).undriven
    assert not list(tmp_path.glob("mark*"))
    # It is as wicked as this test says: where its scripts are trusted, all four run.
    command = [sys.executable, "-c", TRUSTED, str(tmp_path / "evil.blend")]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    assert {file.name for file in tmp_path.glob("mark*")} == {
        f"mark-{k}" for k in ("driver", "text", "handler", "style")
    }


def test_every_factor_goes_where_its_path_says(room: bytes) -> None:
    import bpy

    from ident3d.blender_scenes.blend_scene import BlendScene
    from ident3d.blender_scenes.studio import Studio

    more = """
[factors.grey]
range = [0, 0.9]
path = 'materials["Paint"].saturation'
[factors.rough]
range = [0.1, 0.9]
path = 'materials["Gloss"].node_tree.nodes["Principled BSDF"].inputs["Roughness"].default_value'
"""
    with Studio(BlendScene(room, ROOM + more), size=16, quality="draft") as studio:
        studio.pose([-1.5, 0.25, 600, 1 / 3, 1, 1, 1, 1, 0.5, 0.7])
        data: Any = bpy.data
        things = data.objects
        assert things["Ball"].location.x == things["Box"].location.x == -1.5
        assert things["Box"].rotation_euler.z == 0.25
        assert data.lights["Key"].energy == 600
        assert (things["Ball"].hide_render, things["Box"].hide_render) == (True, False)
        assert things["Cone"].data.name == "Ball"
        assert things["Cone"].material_slots[0].material.name == "Gloss"
        # Ball and cone share a mesh now, which is left as it is.
        assert things["Ball"].material_slots[0].material.name == "Paint"
        assert bpy.context.scene.camera.name == "Top"  # type: ignore[union-attr]
        colour = data.materials["Paint"].node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value
        np.testing.assert_allclose(colour, [0.4, 0.8, 0.4, 1], atol=1e-6)
        rough = data.materials["Gloss"].node_tree.nodes["Principled BSDF"].inputs["Roughness"]
        assert rough.default_value == pytest.approx(0.7)
        focus: Any = studio.scene.focus()
        assert ([thing.name for thing in focus.objects], focus.light.name) == (["Ball", "Box"], "Key")


def test_custom_properties_fixed_meshes_and_what_hangs_on_an_object(tmp_path: Path) -> None:
    import bpy

    from ident3d.blender_scenes.blend_scene import BlendScene
    from ident3d.blender_scenes.studio import Studio

    more = """
bpy.data.objects["Cone"].parent = bpy.data.objects["Ball"]
bpy.data.objects["Floor"]["size"] = 2
driver = bpy.data.objects["Floor"].driver_add("location", 2).driver
driver.type = "SUM"
target = driver.variables.new().targets[0]
target.id, target.data_path = bpy.data.objects["Floor"], '["size"]'
"""
    text = """
[meshes]
Box = "Cone"
[factors.shape]
objects = ["Ball", "Box"]
[factors.size]
values = [0, 1, 3]
path = 'objects["Floor"]["size"]'
"""
    blend = make_room(tmp_path / "room.blend", more)
    with Studio(BlendScene(blend, text), size=16, quality="draft") as studio:
        things: Any = bpy.data.objects
        for ball in (True, False):
            studio.pose([0 if ball else 1, 3])
            assert [things[name].hide_render for name in ("Ball", "Cone", "Box")] == [not ball, not ball, ball]
        assert things["Box"].data.name == "Cone"
        assert things["Floor"]["size"] == 3
        # A driver that Blender calculates itself goes on.
        graph = bpy.context.evaluated_depsgraph_get()
        assert things["Floor"].evaluated_get(graph).location.z == 3


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('["Ball"]', '["Bal"]', "no object 'Bal'"),
        ("location[0]", "locatoin[0]", "Did you mean 'location'"),
        ("location[0]", "location[3]", "[0] to [2]"),
        ("location[0]", "location", "[0] to [2]"),
        ("location[0]", "location[0][0]", "has no item"),
        ("location[0]", "location.x", "[0] to [2]"),
        ("location[0]", "name", "STRING"),
        ("location[0]", "type", "ENUM"),
        ("location[0]", "parent", "a place for a data-block"),
        ("location[0]", "parent.location[0]", "there is nothing"),
        ("location[0]", "modifiers[0].thickness", "has no item"),
        ("location[0]", 'modifiers["thick"].thickness', "no item 'thick'"),
        ("location[0]", "bound_box[0][0]", "bound_box"),
        ("location[0]", "is_instancer", "can only be read"),
        ("location[0]", "pass_index", "from 0 to 32767"),
        ("location[0]", "hide_render", "from 0 to 1"),
        ("location[0]", "color[0]", "from 0 to"),
        ("location[0]", "scale.hue", "[0] to [2]"),
        ("location[0]", "pass_index.bit_length", "has no names"),
        ("location[0]", "users_collection[0]", "Did you mean"),
        ("location[0]", "lock_rotation_w", "from 0 to 1"),
        ("objects[\"Ball\"].location[0]", "materials[\"Gloss\"].hue", "from 0 to"),
        ("location[0]", "delta_rotation_quaternion[0]", "no effect on the image"),
        ("range = [-2, 2]\npath = 'objects[\"Ball\"].location[0]'",
         "range = [0, 2]\npath = 'objects[\"Ball\"].pass_index'", "whole numbers"),
        ("\n[factors.x]", "camera = 'Ball'\n[factors.x]", "no camera 'Ball'"),
        ("\n[factors.x]", "scene = 'Hall'\n[factors.x]", "no scene 'Hall'"),
        ("\n[factors.x]", "[focus]\nobjects = ['Bal']\n[factors.x]", "Did you mean 'Ball'"),
        ("\n[factors.x]", "[meshes]\nBall = 'Bal'\n[factors.x]", "Did you mean 'Ball'"),
        ("range = [-2, 2]", "materials = ['Paint', 'Gloss']", "a number, and the factor gives names"),
        ("range = [-2, 2]\npath = 'objects[\"Ball\"].location[0]'", "objects = ['Ball', 'Bax']", "Did you mean 'Box'"),
        ("range = [-2, 2]\npath = 'objects[\"Ball\"].location[0]'",
         "meshes = ['Ball', 'Box']\npath = 'lights[\"Key\"].shadow_soft_size'", "gives names"),
        ("range = [-2, 2]\npath = 'objects[\"Ball\"].location[0]'",
         "meshes = ['Ball', 'Box']\npath = 'objects[\"Key\"].data'", "cannot be set"),
        ("range = [-2, 2]", "values = [1]", "a single value"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(old: str, new: str, says: str, room: bytes) -> None:
    assert old in ONE
    with pytest.raises(UserError) as caught:
        tried(room, ONE.replace(old, new))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("image = bpy.data.images.new('wood', 4, 4)\nimage.filepath, image.source = '//wood.png', 'FILE'\n"
         "node = paint.node_tree.nodes.new('ShaderNodeTexImage')\nnode.image = image", "wood.png"),
        ("bpy.data.objects['Ball'].keyframe_insert('location', frame=1)", "animation or a driver"),
        ("bpy.data.objects['Ball'].driver_add('location', 0).driver.type = 'SUM'", "animation or a driver"),
        ("bpy.data.scenes.new('Hall')", "has 2 scenes"),
        ("bpy.context.scene.camera = None", "has no camera"),
        ("bpy.data.objects['Ball'].hide_render = True", "x has no effect on the image"),
    ],
)  # fmt: skip
def test_a_blend_that_cannot_serve_is_one_sentence(more: str, says: str, tmp_path: Path) -> None:
    blend = make_room(tmp_path / "room.blend", more)
    with pytest.raises(UserError) as caught:
        tried(blend, ONE)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"import bpy", b"BLENDER-v405", b"\x28\xb5\x2f\xfdxxxx"])
def test_what_is_no_blend_is_one_sentence(content: bytes) -> None:
    with pytest.raises(UserError, match=r"\.blend") as caught:
        tried(content, ONE)
    assert "\n" not in str(caught.value)


def test_a_factor_that_another_one_overrides_is_refused(room: bytes) -> None:
    with pytest.raises(UserError, match="x has no effect on the image"):
        tried(room, ONE + ONE.replace("factors.x", "factors.y"))
