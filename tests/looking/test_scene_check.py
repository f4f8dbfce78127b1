"""`scene check` on a scene in which something leaves the image, something is hidden, and one factor often does nothing.

What leaves the image is said by `render` too, once.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image

from ident3d import Factor, Focus, Scene
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.farm.recipe import Recipe
from ident3d.farm.scenes import load_scene
from ident3d.latents.worlds import World
from ident3d.looking.scene_check import check_scene

pytestmark = pytest.mark.bpy
ROOM = """
import bpy
from ident3d import Factor, Focus, Scene
class Room(Scene):
    factors = (
        Factor("x", range=(0, 9)),
        Factor("wall", "categorical", values=("down", "up")),
        Factor("turn", "periodic", range=(0, 6.283185)),
        Factor("idle", "periodic", range=(0, 1)),
    )
    def build(self):
        bpy.ops.object.camera_add(location=(0, 0, 10))
        bpy.context.scene.camera = bpy.context.object
        bpy.ops.object.light_add(type="SUN")
        bpy.ops.mesh.primitive_plane_add(size=7, location=(0, 0, 5))
        self.wall = bpy.context.object
        bpy.ops.mesh.primitive_cube_add(size=2, location=(-2, -2, 0))
        self.cube = bpy.context.object
        bpy.ops.mesh.primitive_uv_sphere_add()
        self.ball = bpy.context.object
    def pose(self, values):
        self.ball.location.x = values["x"]
        self.cube.rotation_euler.z = values["turn"]
        self.wall.hide_render = values["wall"] == "down"
        self.wall.rotation_euler.x = values["idle"]
    def focus(self):
        return Focus([self.ball])
"""


def test_what_leaves_the_image_is_hidden_or_does_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(ROOM)
    words = ["--scene", f"{tmp_path / 'room.py'}:Room", "--size", "16", "--quality", "draft"]
    done = CliRunner().invoke(main, ["scene", "check", *words, "--out", str(tmp_path / "sheet.png")])
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())  # notes are wrapped
    x, wall, turn, idle = (text.partition(f" {name} ")[2] for name in ("x", "wall", "turn", "idle"))
    assert re.match(r"[\d.]+ \d+ % Sphere is \d\d % out of frame at 4.5; Sphere is out of frame at 9 wall", x)
    assert "Sphere is hidden at up" in wall
    assert "Sphere is hidden at down" not in wall
    # A cube looks the same after a quarter of a turn, and not after a fifth.
    assert not re.match("0.0 0 %", turn)
    assert re.match("0.0 0 % .* no effect on the image", idle)
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.height > 3 * 128


def test_a_factor_that_shows_only_in_what_depends_on_it_is_a_hidden_cause(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(ROOM.replace('= values["idle"]', "= 0"))
    (tmp_path / "graph.toml").write_text('[x]\nmean = "sin(pi * idle)"\nsd = 0.1\n')
    scene = load_scene(f"{tmp_path / 'room.py'}:Room", graph=tmp_path / "graph.toml")
    found = check_scene(Recipe(scene, size=16, quality="draft"), show_progress=False)
    assert found.effects[3].notes[-1] == "hidden cause"


def test_render_says_once_what_leaves_the_image_at_an_end(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(ROOM)
    words = ["--scene", f"{tmp_path / 'room.py'}:Room", "--size", "16", "--quality", "draft", "--n", "1"]
    done = CliRunner().invoke(main, ["render", *words, "--workers", "1", "--out", str(tmp_path / "data")])
    assert done.exit_code == 0, done.output
    dry = CliRunner().invoke(main, ["render", *words, "--workers", "1", "--out", str(tmp_path / "other"), "--dry-run"])
    assert "Sphere is out of frame at x=9" in dry.stderr, dry.output
    (note,) = [line for line in done.stderr.splitlines() if line.startswith("Note")]
    assert "Sphere is out of frame at x=9: `ident3d scene check`" in note
    # Who lets it grow, or is refused, has been told.
    for more, code in ((["--n", "2"], 0), (["--seed", "1"], 2)):
        again = CliRunner().invoke(main, ["render", *words, *more, "--workers", "1", "--out", str(tmp_path / "data")])
        assert again.exit_code == code, again.output
        assert "out of frame" not in again.stderr
    # Other commands are silent, and so is whoever holds the factor.
    check = CliRunner().invoke(
        main, ["scene", "check", *words[:-2], "--fix", "x=0.9", "--out", str(tmp_path / "s.png")]
    )
    assert check.exit_code == 0, check.output
    assert "Note" not in check.stderr
    assert load_scene(words[1], {"x": -1}).leaving == ""
    (tmp_path / "room.py").write_text(ROOM.replace("(0, 9)", "(-2, 4.5)"))
    assert re.match(r"Sphere is [5-9]\d % out of frame at x=4.5: ", load_scene(words[1], {"wall": "up"}).leaving)


def test_3dident_is_in_frame_and_every_factor_shows() -> None:
    found = check_scene(Recipe(World(fixed={"rotation": 0.2, "z": 0}), size=16, quality="draft"), show_progress=False)
    assert [effect.factor for effect in found.effects] == [
        "x", "y", "spotlight_position", "object_hue", "spotlight_hue", "ground_hue",
    ]  # fmt: skip
    assert all(effect.pixels > 0.01 for effect in found.effects)
    assert not [note for effect in found.effects for note in effect.notes]


def test_a_scene_whose_factors_are_all_held_is_refused() -> None:
    held = World(fixed=dict.fromkeys(("position", "rotation", "hue", "spotlight_position"), 0))
    with pytest.raises(UserError, match="held"):
        check_scene(Recipe(held, size=16, quality="draft"))


class Letter(Scene):
    """An O, of which no point lies at a corner of its box."""

    factors = (Factor("x", range=(-1, 1)),)

    def build(self) -> None:
        import bpy

        bpy.ops.object.camera_add(location=(0, 0, 10))
        bpy.context.scene.camera = bpy.context.object
        bpy.ops.object.text_add()
        self.letter: Any = bpy.context.object
        self.letter.data.body = "O"

    def pose(self, values: Any) -> None:
        self.letter.location.x = values["x"]

    def focus(self) -> Focus:
        return Focus([self.letter])


def test_a_text_in_full_sight_is_not_hidden() -> None:
    from ident3d.blender_scenes.sight import Sight, sights
    from ident3d.blender_scenes.studio import Studio

    with Studio(Letter(), size=16, quality="draft") as studio:
        studio.pose([0.5])
        assert sights(studio.scene.focus()) == [Sight("Text", 1.0, False)]
