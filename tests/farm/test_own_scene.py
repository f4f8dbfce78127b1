"""A scene of a user's own, that of the docs' page: the promises of 3DIdent, and code that runs only when asked to."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from farm.conftest import contents

from ident3d import Environment, ImageDataset, Sequences, info, pack, preview, traverse
from ident3d.blender_scenes.try_scene import try_scene
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.farm import scenes
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.farm.scenes import OwnScene, load_scene
from ident3d.latents.draws import draw
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.description import Description, read_description, write_description
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.manifest import read_entries
from ident3d.loaders.format.shard import read_shard

pytestmark = pytest.mark.bpy
PAGE = Path(__file__).parents[2] / "docs/how-to/own-scene.md"
LAMP = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
PLAIN = """
import bpy
from ident3d import Factor, Focus, Scene
class Plain(Scene):
    factors = (Factor("x", range=(-1, 1)),)
    def build(self):
        bpy.ops.mesh.primitive_cube_add(location=(0, 0, -9))
        bpy.ops.object.light_add(type="SUN")
        bpy.ops.object.camera_add()
        bpy.context.scene.camera = bpy.context.object
    def pose(self, values):
        bpy.context.object.location.x = values["x"]
"""

BAD_FOCUS = {
    "[bpy.context.object]": "ident3d.Focus([...]) or None, not list",
    "Focus(bpy.context.object)": "`objects`",
    "Focus(['Camera'])": "`objects`",
    "Focus([], light=bpy.context.object)": "`light`",
    "Focus([], ground=None)": "`ground`",
}


@pytest.fixture(scope="module")
def lamp(tmp_path_factory: pytest.TempPathFactory) -> OwnScene:
    file = tmp_path_factory.mktemp("scene") / "mine.py"
    file.write_text(LAMP)
    return load_scene(f"{file}:Lamp")


@pytest.fixture(scope="module")
def dataset(lamp: OwnScene, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 images in shards of 4 by one worker; to be read, not changed."""
    folder = tmp_path_factory.mktemp("lamp") / "data"
    render(18, tiny(lamp), out=folder, workers=1, shard_size=4, show_progress=False)
    return folder


def tiny(scene: OwnScene) -> Recipe:
    return Recipe(scene, size=16, quality="draft")


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def test_workers_and_growth_do_not_change_bytes(lamp: OwnScene, dataset: Path, tmp_path: Path) -> None:
    for n in (7, 18):
        render(n, tiny(lamp), out=tmp_path / "data", workers=2, shard_size=4, show_progress=False)
    assert contents(tmp_path / "data") == contents(dataset)
    assert verify(dataset, show_progress=False).good == 18


def test_images_show_their_factors_and_the_folder_has_them(dataset: Path, tmp_path: Path) -> None:
    images = ImageDataset(dataset)
    height, _, turn, shape = images.factors.factors
    assert (height.group, turn.kind, shape.values) == ("lamp", "periodic", ("ball", "cube"))
    raw, pixels = (part.numpy() for part in images.batch(range(18)))
    assert set(raw[:, 1]) == {np.float32(v) for v in (-1, -0.25, 1)}
    assert set(raw[:, 3]) == {-1, 1}
    # the brighter the lamp, the brighter the picture
    means = [pixels[raw[:, 1] == value].mean() for value in (-1, -0.25, 1)]
    assert means == sorted(means)
    assert means[0] < 0.9 * means[2]
    assert {"Lamp", "categorical", "200, 500, 1000"} <= set(re.split(r"\s{2,}|\n|, a file", info(dataset).table()))
    assert "of the Lamp scene" in (dataset / "README.md").read_text()
    assert preview(dataset, count=4, with_latents=True).height > preview(dataset, count=4).height


def test_sequences_and_environments(lamp: OwnScene, tmp_path: Path) -> None:
    environments = (Environment("plain"), Environment("low", {"height": "normal(-0.5, 0.1)", "shape": "cube"}))
    recipe = replace(tiny(lamp), sequence=Sequences(3, switch=0.5), environments=environments)
    render(12, recipe, out=tmp_path / "data", workers=1, show_progress=False)
    assert verify(tmp_path / "data", show_progress=False).sound
    images = ImageDataset(tmp_path / "data")
    assert images.environments == ("plain", "low")
    z = images.all_latents()[0].reshape(4, 3, 4)
    assert (z[1::2, :, 3] == 1).all()
    assert (z[1::2, 0, 0] < 0).all()
    assert (z[:, 1:, 0] != z[:, :-1, 0]).all()


def test_a_factor_is_held_at_a_raw_value_or_at_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LAMP)
    words = ["--scene", f"{tmp_path / 'mine.py'}:Lamp", "--size", "16", "--quality", "draft", "--fix", "shape=cube"]
    run("render", *words, "--fix", "height=0.5", "--n", "3", "--workers", "1", "--root", str(tmp_path))
    (folder,) = tmp_path.glob("Lamp-*")
    assert folder.name == f"Lamp-train-3-16px-draft-scene{sha256(LAMP.encode())[:8]}-height=0.5-shape=1"
    opened = open_folder(folder)
    shard = read_shard(opened.shard_path(opened.entries[0]))
    assert (shard.raw_latents[:, [0, 3]] == [0.5, 1]).all()
    assert (shard.scene_latents[:, [0, 3]] == [4.25, 1]).all()
    assert ImageDataset(folder).world.held == {"height": 0.5, "shape": 1.0}
    assert verify(folder, show_progress=False).sound
    assert "shape = 1" in info(folder).table()


def test_latents_from_a_file_and_a_traversal(lamp: OwnScene, dataset: Path, tmp_path: Path) -> None:
    given = np.load(dataset / "all_latents.npy")[:3]
    np.save(tmp_path / "z.npy", given)
    render(None, tiny(lamp), out=tmp_path / "data", latents=tmp_path / "z.npy", workers=1, show_progress=False)
    before, after = (ImageDataset(folder).batch(range(3))[1].numpy() for folder in (dataset, tmp_path / "data"))
    np.testing.assert_array_equal(before, after)
    given[2, 3] = 0.1
    np.save(tmp_path / "z.npy", given)
    with pytest.raises(UserError, match="shape of image 2"):
        render(None, tiny(lamp), out=tmp_path / "bad", latents=tmp_path / "z.npy", workers=1)
    sheet = np.asarray(traverse(tiny(lamp), steps=2, show_progress=False))
    assert sheet.shape[1] > 4 * 128


def test_another_source_than_the_folders_is_refused(lamp: OwnScene, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(LAMP)
    (tmp_path / "other.py").write_bytes(LAMP.encode("utf-8-sig"))
    assert load_scene(f"{tmp_path / 'other.py'}:Lamp") == lamp  # another name of the file is no difference
    (tmp_path / "other.py").write_text(LAMP + "# other\n")
    before = contents(dataset)
    with pytest.raises(UserError, match=rf"own_scene\.sha256: {sha256(LAMP.encode())[:8]}") as caught:
        render(20, tiny(load_scene(f"{tmp_path / 'other.py'}:Lamp")), out=dataset, workers=1)
    assert "import bpy" not in str(caught.value)
    assert contents(dataset) == before


def test_nothing_is_run_from_a_folder(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    # what it prints at the end is not taken for its factors
    first = f"import atexit\natexit.register(print, 'bye')\nopen({str(seen)!r}, 'w').close()\n"
    (tmp_path / "mine.py").write_text(first + PLAIN)
    recipe = tiny(load_scene(f"{tmp_path / 'mine.py'}:Plain"))
    render(2, recipe, out=tmp_path / "data", workers=1, show_progress=False)
    seen.unlink()
    info(tmp_path / "data").table()
    preview(tmp_path / "data")
    assert verify(tmp_path / "data", show_progress=False).sound
    pack(tmp_path / "data")
    world = ImageDataset(tmp_path / "data").world
    with pytest.raises(UserError, match="load_scene"):
        render(4, Recipe(world, size=16, quality="draft"), out=tmp_path / "again")
    assert not seen.exists()
    old = read_description(tmp_path / "data")
    for text in ("1", 1):
        write_description(
            tmp_path / "data", Description(**vars(old) | {"settings": old.settings | {"scene_text": text}})
        )
        with pytest.raises(UserError, match="sha256"):
            read_description(tmp_path / "data")


def test_a_scene_that_raises_in_a_worker_fails_one_shard_and_names_image_and_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLAIN)
    world = load_scene(f"{tmp_path / 'mine.py'}:Plain")
    # a row that the file is not tried with
    x = world.to_scene(draw(world, seed=0, split="train", start=3, count=1).raw)[0, 0]
    # What it leaves behind must not reach the shards after it.
    text = PLAIN + f'        if values["x"] == {float(x)}: bpy.context.object.location.z = float("nan"); 1 / 0\n'
    (tmp_path / "mine.py").write_text(text)
    words = ["--scene", f"{tmp_path / 'mine.py'}:Plain", "--size", "16", "--quality", "draft", "--workers", "1"]
    error = run("render", *words, "--n", "8", "--shard-size", "2", "--out", str(tmp_path / "data"), code=1)
    assert f"(images 2-3) failed: image 3 (x={x:.4g}): The scene Plain raised ZeroDivisionError" in error
    assert f"in line {len(text.splitlines())}" in error
    assert [entry.first for entry in read_entries(tmp_path / "data")] == [0, 4, 6]
    # mended, it is another scene
    (tmp_path / "mine.py").write_text(PLAIN)
    assert "--fresh" in run("render", *words, "--n", "8", "--out", str(tmp_path / "data"), code=2)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("import bpy\n", "import bpy\nx = (\n", "SyntaxError in line 3"),
        ("class Plain", "class Plane", "Did you mean 'Plane'"),
        ("(Scene)", "", "below ident3d.Scene"),
        ('(Factor("x", range=(-1, 1)),)', "()", "ident3d.Factor"),
        ('(Factor("x", range=(-1, 1)),)', '("x",)', "ident3d.Factor"),
        ("range=(-1, 1)", "range=(1, -1)", "line 5: The range of x goes from a lower"),
        ("bpy.context.scene.camera = bpy.context.object", "pass", "has no camera"),
        ("location.x", "place.x", "AttributeError in line 12"),
        ('= values["x"]', '= values["x"] if values["x"] < 1 else float("nan")', "Plain gives Camera a location"),
        ("location.x =", "rotation_euler.z = float('inf') *", "Plain gives Camera a location, rotation"),
        ('values["x"]', '[][int(values["x"] == 1)]', "IndexError in line 12"),
        ("bpy.ops.object.camera_add()", "raise SystemExit(3)", "SystemExit in line 9"),
        ("def pose", "def place", "needs a method pose(self, values)"),
        ("pose(self, values)", "pose(self)", "TypeError: Plain.pose() takes 1 positional argument"),
        (",)\n", ")\n", "comma"),
        ("def build", "def __init__(self, x): pass\n    def build", "TypeError: Plain.__init__()"),
        ("import bpy", "import bpy\0", "null bytes"),
        *[("def build", f"def focus(self): return {focus}\n    def build", says) for focus, says in BAD_FOCUS.items()],
    ],
)
def test_mistakes_in_the_file_are_one_sentence(old: str, new: str, says: str) -> None:
    assert old in PLAIN
    with pytest.raises(UserError, match=re.escape(says)) as caught:
        try_scene("Plain", PLAIN.replace(old, new))
    assert "\n" not in str(caught.value)


def test_every_listed_value_is_tried_and_given_as_it_was_declared() -> None:
    listed = PLAIN.replace("range=(-1, 1)", "values=(0.1, 0.2, 0.3, 0.4, 0.5)")
    places = "{0.1: 1, 0.2: 2, 0.3: 3, 0.4: 4, 0.5: 5}"
    try_scene("Plain", listed.replace('= values["x"]', f'= {places}[values["x"]]'))
    with pytest.raises(UserError, match=r"KeyError in line 12: 0\.4"):
        try_scene("Plain", listed.replace('= values["x"]', f'= {places.replace("0.4", "4")}[values["x"]]'))


def test_a_factor_without_effect_is_refused_and_one_with_a_rare_effect_is_not(tmp_path: Path) -> None:
    two = PLAIN.replace("1)),)", "1)), Factor('y', range=(-1, 1)))")
    # In one image of 200.
    rare = '        bpy.context.object.location.y = values["y"] if values["x"] > 0.99 else 0\n'
    assert try_scene("Plain", two + rare).factors.names == ("x", "y")
    # The same at both ends of the range and in its middle.
    again = '        bpy.context.object.location.y = abs(values["y"]) % 1\n'
    assert try_scene("Plain", two + again).factors.names == ("x", "y")
    with pytest.raises(UserError, match="y has no effect on the image") as caught:
        try_scene("Plain", two)
    assert "\n" not in str(caught.value)
    assert "--graph in which others depend on it" in str(caught.value)
    # A graph that is yet to be written may give it a part.
    (tmp_path / "mine.py").write_text(two)
    assert "[y]" in run("graph", "--scene", f"{tmp_path / 'mine.py'}:Plain", "--toml")
    # A hidden cause shows in what it sets.
    (tmp_path / "graph.toml").write_text('[x]\nmean = "y"\nsd = 0.1\n')
    assert try_scene("Plain", two, graph=str(tmp_path / "graph.toml")).factors.names == ("x", "y")


def test_a_pose_that_does_not_return_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "STEP_SECONDS", 6)
    (tmp_path / "mine.py").write_text(PLAIN + '        while values["x"] == 1: pass\n')
    with pytest.raises(UserError, match=r"mine\.py:Plain cannot be loaded: `pose` is still in line 13 after 6 s"):
        load_scene(f"{tmp_path / 'mine.py'}:Plain")
    (tmp_path / "mine.py").write_text(PLAIN + "while True: pass\n")
    with pytest.raises(UserError, match="its file is still in line 13 after 6 s"):
        load_scene(f"{tmp_path / 'mine.py'}:Plain")


def test_a_scene_that_never_lets_go_of_bpy_ends_all_the_same(tmp_path: Path) -> None:
    held = "import ctypes, bpy\nctypes.pythonapi.Py_IncRef(ctypes.py_object(bpy))\n" + PLAIN
    (tmp_path / "mine.py").write_text(held)
    # Both the process that tries the scene and that of the command hold bpy as they end.
    words = ["scene", "check", "--scene", "mine.py:Plain", "--size", "16", "--quality", "draft", "--out", "check.png"]
    command = [sys.executable, "-m", "ident3d", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "check.png" in done.stdout


def test_a_mistake_without_a_line_of_the_file_reaches_who_loads_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLAIN.replace("pose(self, values)", "pose(self)"))
    with pytest.raises(UserError, match=r"mine\.py: .*TypeError: Plain\.pose\(\) takes 1"):
        load_scene(f"{tmp_path / 'mine.py'}:Plain")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--scene", "mine.py"], "mine.py:Lamp"),
        (["--scene", "absent.py:Lamp"], "absent.py cannot be read"),
        (["--scene", "two.py:Lamp"], "No module named 'mine'"),
        (["--scene", "mine.py:Lamp", "--do", "hight=0"], "Did you mean 'height'"),
        (["--scene", "mine.py:Lamp", "--hue-range", "1"], "--hue-range"),
        (["--scene", "mine.py:Lamp", "--material", "metal"], "--material"),
        (["--scene", "mine.py:Lamp", "--fix", "hight=0"], "Did you mean 'height'"),
        (["--scene", "mine.py:Lamp", "--fix", "shape=cup"], "ball, cube"),
        (["--scene", "mine.py:Lamp", "--fix", "brightness=0"], "-0.25"),
    ],
)
def test_mistakes_on_the_command_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(LAMP)
    Path("two.py").write_text("from mine import Lamp\n")
    error = run("render", "--n", "4", "--out", "data", *words, code=2)
    assert says in error
    assert error.count("\n") == 1
    assert not Path("data").exists()


def test_the_folder_records_the_source(dataset: Path) -> None:
    settings = json.loads((dataset / "dataset.json").read_text())["settings"]
    assert settings["scene_text"] == LAMP
    assert settings["world"]["own_scene"] == {"name": "Lamp", "sha256": sha256(LAMP.encode())}
