"""Graphs, interventions, their picture and the presets' benchmark, on a Python file and on a .blend."""

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from blender_scenes.rooms import ROOM, make_room
from click.testing import CliRunner
from farm.test_own_scene import LAMP
from PIL import Image

from ident3d import ImageDataset, graph, info, load_scene, verify
from ident3d.cli import main
from ident3d.latents.exact.causal import CausalModel
from ident3d.latents.own_graph import own_interventions

pytestmark = pytest.mark.bpy
GRAPH = """
[{box}]
mean = "0.7 * (shape == '{first}') - 0.2"
sd = 0.05

[turn]
mean = "{box} / 2"
sd = 0.02
"""


class Case(NamedTuple):
    """A scene as options, its two shapes, a factor on a range, and one with listed numbers."""

    words: list[str]
    shapes: tuple[str, str]
    box: str
    listed: str
    graph: Path


@pytest.fixture(scope="module", params=["Lamp", "blend"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("scene")
    if request.param == "Lamp":
        (folder / "mine.py").write_text(LAMP)
        words, shapes, box, listed = ["--scene", f"{folder / 'mine.py'}:Lamp"], ("ball", "cube"), "height", "brightness"
    else:
        make_room(folder / "room.blend")
        (folder / "room.toml").write_text(ROOM)
        words = ["--scene", str(folder / "room.blend"), "--factors", str(folder / "room.toml")]
        shapes, box, listed = ("ball", "box"), "x", "light"
    (folder / "own.toml").write_text(GRAPH.format(box=box, first=shapes[0]))
    return Case(words, shapes, box, listed, folder / "own.toml")


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


def test_a_graph_and_interventions_are_rendered_recorded_and_verified(case: Case, tmp_path: Path) -> None:
    words = ["render", *case.words, "--size", "16", "--quality", "draft", "--workers", "1", "--root", str(tmp_path)]
    words += ["--graph", str(case.graph), "--n", "8", "--do", f"{case.listed}=-1"]
    run(*words, "--do", f"shape={case.shapes[1]}")
    (folder,) = tmp_path.glob("*-graph*")
    assert folder.name.endswith("=-1-shape=1")
    assert verify(folder, show_progress=False).sound
    images = ImageDataset(folder)
    z = dict(zip(images.world.names, images.all_latents()[0].T, strict=True))
    assert (z["shape"] == 1).all()
    assert (z[case.listed] == -1).all()
    assert abs(z[case.box] + 0.2).max() < 0.3
    assert abs(z["turn"] - z[case.box] / 2).max() < 0.1
    assert isinstance(images.world.graph, CausalModel)
    shown = info(folder).table()
    for words_of in (shown, (folder / "README.md").read_text()):
        assert "shape = 1" in words_of
        assert "its own, in dataset.json" in words_of
        assert "set by an intervention" in words_of
    # The same command continues it, and one under another intervention does not.
    more = [*words, "--do", f"shape={case.shapes[0]}", "--out", str(folder)]
    assert "world.do.shape" in run(*more, code=2)
    out = ["--out", str(tmp_path / "file")]
    np.save(tmp_path / "z.npy", images.all_latents()[0])
    given = [word for word in words if word not in ("--n", "8")]
    assert "--latents" in run(*given, "--latents", str(tmp_path / "z.npy"), *out, code=2)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("case", ["blend"], indirect=True, scope="module")
def test_interventions_without_a_graph_leave_the_others_as_they_are(case: Case, tmp_path: Path) -> None:
    words = ["render", *case.words, "--size", "16", "--quality", "draft", "--workers", "1", "--n", "6"]
    run(*words, "--fix", f"{case.listed}=1", "--out", str(tmp_path / "before"))
    do = ["--do", f"{case.box} ~ normal(0.5 * turn, 0.01)"]
    run(*words, "--fix", f"{case.listed}=1", *do, "--out", str(tmp_path / "after"))
    before, after = (ImageDataset(tmp_path / name) for name in ("before", "after"))
    one, other = before.all_latents()[0], after.all_latents()[0]
    k, turn = before.world.names.index(case.box), before.world.names.index("turn")
    assert abs(other[:, k] - 0.5 * other[:, turn]).max() < 0.06
    np.testing.assert_array_equal(np.delete(one, k, 1), np.delete(other, k, 1))
    assert (before.images(range(6)) != after.images(range(6))).any()
    assert verify(tmp_path / "after", show_progress=False).sound


def test_the_graph_is_drawn_and_printed(case: Case, tmp_path: Path) -> None:
    out = tmp_path / "graph.png"
    run("graph", *case.words, "--graph", str(case.graph), "--do", f"shape={case.shapes[1]}", "--out", str(out))
    with Image.open(out) as picture:
        colours = [colour for _, colour in picture.convert("RGB").getcolors(1 << 20) or []]
    assert {(0xF3, 0xD9, 0xB1), (0xDB, 0xE7, 0xF3)} <= set(colours)  # what is set, and what has parents
    text = run("graph", *case.words, "--toml")
    assert f"[{case.box}]" in text


def test_a_traversal_is_drawn_under_an_intervention(case: Case, tmp_path: Path) -> None:
    words = ["--size", "16", "--quality", "draft", "--graph", str(case.graph), "--do", f"shape={case.shapes[1]}"]
    run("traverse", *case.words, *words, "--values", "2", "--out", str(tmp_path / "t.png"))
    assert (tmp_path / "t.png").exists()
    table = run("scene", "check", *case.words, *words, "--out", str(tmp_path / "c.png"))
    assert f"\n{case.box} " in table
    assert "\nshape " not in table


def test_the_presets_are_compared_on_it(case: Case) -> None:
    words = ["--scenes", "2", "--qualities", "reference,draft", "--size", "16"]
    table = run("bench", "render", *case.words, *words)
    assert "reference" in table
    assert "draft" in table


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--do", "shap=0"], "Did you mean 'shape'"),
        (["--do", "turn ~ beta(1, 2)"], "normal, laplace, uniform"),
        (["--graph", "absent.toml"], "absent.toml"),
        (["--graph", "GRAPH", "--fix", "turn=0"], "--do turn=0"),
        (["--classes", "Hare"], "--classes"),
    ],
)
def test_mistakes_on_the_command_line(
    given: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(LAMP)
    Path("own.toml").write_text(GRAPH.format(box="height", first="ball"))
    words = ["own.toml" if word == "GRAPH" else word for word in given]
    error = run("render", "--n", "4", "--out", "data", "--scene", "mine.py:Lamp", *words, code=2)
    assert says in error
    assert error.count("\n") == 1
    assert not Path("data").exists()


def test_what_has_no_graph_is_one_sentence() -> None:
    assert "has no causal graph" in run("graph", "--scene", "3dident", code=2)
    assert "goes with a .blend" in run("graph", "--factors", __file__, code=2)
    assert "without classes" in run("bench", "render", "--scene", "causal3dident", code=2)


def test_the_pages_graph_of_an_example_is_drawn_from(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/own-graph.md").read_text(encoding="utf-8")
    section = page.partition("## Over the factors of your own scene")[2].partition("\n## ")[0]
    (text,) = re.findall(r"^```toml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "objects.toml").write_text(text)
    world = load_scene("examples:Objects", graph=tmp_path / "objects.toml")
    assert isinstance(world.graph, CausalModel)
    assert len(world.graph.edges) == 3
    done = re.findall(r'--do (?:"(.*?)"|(\S+))', section)
    assert len(done) >= 3
    for quoted, plain in done:
        if "VALUE" not in (given := quoted or plain):
            assert replace(world, do=own_interventions([given])).do
    graph(out=tmp_path / "graph.png", scene=world, do={"left_shape": "cone"})
    assert (tmp_path / "graph.png").stat().st_size > 2000
