"""--mesh gives files of triangles to scenes of a user's own; the folder knows them by their sha256 alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from blender_scenes.rooms import ONE, make_room
from click.testing import CliRunner
from farm.conftest import contents

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.farm.scenes import load_scene
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.shard import read_shard

pytestmark = pytest.mark.bpy
# A pyramid with its tip up, in each of the three formats.
CORNERS = ((-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0), (0, 0, 2))
FACES = ((0, 2, 1), (0, 3, 2), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4))
OBJ = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS) + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in FACES)
PLY = (
    "ply\nformat ascii 1.0\nelement vertex 5\nproperty float x\nproperty float y\nproperty float z\n"
    "element face 6\nproperty list uchar int vertex_indices\nend_header\n"
    + "".join(f"{x} {y} {z}\n" for x, y, z in CORNERS)
    + "".join(f"3 {a} {b} {c}\n" for a, b, c in FACES)
)
STL = "solid tent\n" + "".join(
    "facet normal 0 0 0\nouter loop\n"
    + "".join("vertex {} {} {}\n".format(*CORNERS[k]) for k in face)
    + "endloop\nendfacet\n"
    for face in FACES
)
MINE = """
import bpy
from ident3d import Factor, Scene
class Tent(Scene):
    factors = (Factor("x", range=(-1, 1)),)
    def build(self):
        bpy.ops.object.camera_add(location=(0, -9, 1), rotation=(1.57, 0, 0))
        bpy.context.scene.camera = bpy.context.object
        bpy.ops.object.light_add(type="SUN", rotation=(0.6, 0, 0))
        self.tent = bpy.data.objects.new("tent", self.mesh("Tent"))
        bpy.context.collection.objects.link(self.tent)
    def pose(self, values):
        self.tent.location.x = values["x"]
"""
SIDES = """
[factors.side]
meshes = ["Cone", "Tent"]
path = 'objects["Cone"].data'
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meshes")
    make_room(folder / "desk.blend")
    for name, text in {"tent.obj": OBJ, "tent.ply": PLY, "tent.stl": STL, "mine.py": MINE, "side.toml": SIDES}.items():
        (folder / name).write_text(text)
    (folder / "one.toml").write_text(ONE)
    (folder / "worn.toml").write_text(f'{ONE}[meshes]\nBall = "Tent"\n')
    (folder / "tent.txt").write_text(OBJ)
    (folder / "cut.stl").write_text(STL[:-40])
    return folder


def images(folder: Path) -> np.ndarray:
    opened = open_folder(folder)
    return np.concatenate([read_shard(opened.shard_path(entry)).images for entry in opened.entries])


def test_the_three_formats_show_the_same_in_a_python_scene(files: Path, tmp_path: Path) -> None:
    found = {}
    for ending in ("obj", "ply", "stl"):
        scene = load_scene(f"{files / 'mine.py'}:Tent", meshes={"Tent": files / f"tent.{ending}"})
        render(3, Recipe(scene, size=16, quality="draft"), out=tmp_path / ending, workers=1, show_progress=False)
        found[ending] = images(tmp_path / ending)
        settings = json.loads((tmp_path / ending / "dataset.json").read_text())["settings"]
        assert settings["scene_files"] == {"mesh Tent": sha256((files / f"tent.{ending}").read_bytes())}
    assert found["obj"].std() > 5
    for ending in ("ply", "stl"):
        # Points in another order: sums of floats may differ in their last bits.
        assert np.abs(found[ending].astype(int) - found["obj"]).max() <= 1
    other = load_scene(f"{files / 'mine.py'}:Tent", meshes={"Tent": files / "tent.stl"})
    with pytest.raises(UserError, match=r"scene_files\.mesh Tent"):
        render(4, Recipe(other, size=16, quality="draft"), out=tmp_path / "obj", workers=1, show_progress=False)


def test_a_factor_of_a_blend_chooses_the_mesh_of_a_file(files: Path, tmp_path: Path) -> None:
    words = ["--scene", str(files / "desk.blend"), "--factors", str(files / "side.toml"), "--size", "16"]
    words += ["--quality", "draft", "--mesh", f"Tent={files / 'tent.stl'}", "--n", "6"]
    for workers in (1, 2):
        out = tmp_path / str(workers)
        done = CliRunner().invoke(
            main, ["render", *words, "--out", str(out), "--workers", str(workers), "--shard-size", "2"]
        )
        assert done.exit_code == 0, done.output
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert "its mesh Tent" in (tmp_path / "1/README.md").read_text()


@pytest.mark.parametrize("ending", ["obj", "stl"])
def test_a_mesh_of_a_file_wears_the_materials_of_its_object(ending: str, files: Path) -> None:
    import bpy

    from ident3d.blender_scenes.blend_scene import BlendScene
    from ident3d.blender_scenes.studio import Studio
    from ident3d.shapes.parse import parse

    scene = BlendScene((files / "desk.blend").read_bytes(), (files / "worn.toml").read_text())
    mesh = parse(f"tent.{ending}", (files / f"tent.{ending}").read_bytes())
    scene.mesh_files = {"Tent": (mesh.vertices, mesh.faces)}
    with Studio(scene, size=16, quality="draft"):
        ball = bpy.data.objects["Ball"]
        assert ball.data.name == "Tent"
        assert [slot.material.name for slot in ball.material_slots] == ["Paint"]
        assert len(ball.data.polygons) == 6
        assert max(vertex.co.z for vertex in ball.data.vertices) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--scene", "3dident", "--mesh", "Tent=tent.obj"], "takes no --mesh"),
        (["--scene", "mine.py:Tent"], "--mesh Tent=file.obj"),
        (["--scene", "mine.py:Tent", "--mesh", "Tint=tent.obj"], "Did you mean 'Tint'"),
        (["--scene", "mine.py:Tent", "--mesh", "Tent=tent.obj", "--mesh", "Cup=tent.stl"], "--mesh Cup has no part"),
        (["--scene", "mine.py:Tent", "--mesh", "Tent=tent.obj", "--mesh", "Tent=tent.stl"], "a name twice"),
        (["--scene", "mine.py:Tent", "--mesh", "Tent=absent.obj"], "absent.obj cannot be read"),
        (["--scene", "mine.py:Tent", "--mesh", "Tent=tent.txt"], ".stl file"),
        (["--scene", "mine.py:Tent", "--mesh", "Tent=cut.stl"], "cut.stl cannot be read"),
        (["--scene", "mine.py:Tent", "--mesh", "T|t=tent.obj"], "is no mesh name"),
        (["--scene", "mine.py:Tent", "--mesh", "tent.obj"], "Cup=cup.stl"),
        (["--scene", "desk.blend", "--factors", "one.toml", "--mesh", "Tent=tent.obj"], "no factor and no [meshes]"),
        (["--scene", "desk.blend", "--factors", "side.toml"], "no mesh 'Tent'"),
        (["--scene", "desk.blend", "--factors", "side.toml", "--mesh", "Cone=tent.obj"], "a mesh 'Cone' already"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], says: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    done = CliRunner().invoke(main, ["render", "--n", "2", "--out", str(tmp_path / "data"), *words])
    assert done.exit_code == 2, done.output
    assert says in " ".join(done.stderr.split())
    assert not (tmp_path / "data").exists()
