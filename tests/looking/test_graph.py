"""``ident3d graph``: the picture of the causal graph."""

import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents import NAMES, World, draw
from ident3d.latents.exact.causal import CausalModel, load_model, published_model, published_text
from ident3d.latents.exact.names import assignments
from ident3d.looking.causal_graph import draw_graph, graph


def arrows_and_labels(model: CausalModel, do: dict[str, float | str] | None = None) -> tuple[int, list[str]]:
    axes = draw_graph(model, do).axes[0]
    texts = [text.get_text().replace("\n", " ") for text in axes.texts]
    return texts.count(""), [text for text in texts if text]


def test_every_factor_and_every_arrow_is_drawn() -> None:
    arrows, labels = arrows_and_labels(published_model())
    assert arrows == 10
    assert sorted(labels) == sorted(name.replace("_", " ") for name in ["class", *published_model().nodes])


def test_an_intervention_cuts_the_arrows_to_it() -> None:
    arrows, labels = arrows_and_labels(published_model(), {"object_hue": 0.5, "class": "Hare"})
    assert arrows == 7
    assert {"object hue = 0.5", "class = Hare"} <= set(labels)


def test_a_chain_has_a_column_for_each_step() -> None:
    model = CausalModel.from_dict({"y": {"mean": "x", "sd": 1}, "z": {"mean": "y", "sd": 1}})
    axes = draw_graph(model).axes[0]
    places = {text.get_text(): text.get_position()[0] for text in axes.texts if text.get_text()}
    assert (places["x"], places["y"], places["z"]) == (0, 1, 2)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_command_writes_a_picture(tmp_path: Path, ending: str) -> None:
    file, out = tmp_path / "mine.toml", tmp_path / f"picture.{ending}"
    file.write_text("[y]\nmean = 'x'\nsd = 0.5\n")
    done = CliRunner().invoke(main, ["graph", "--graph", str(file), "--do", "x=0.5", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert out.stat().st_size > 2000
    if ending == "png":
        with Image.open(out) as picture:
            colours = picture.convert("RGB").getcolors(1 << 20)
            assert (0xF3, 0xD9, 0xB1) in [colour for _, colour in colours]  # the square that is held


def test_command_prints_the_published_graph() -> None:
    done = CliRunner().invoke(main, ["graph", "--toml"])
    assert done.output == published_text()


def test_bad_pictures(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'\.doc'.*\.png, \.pdf, \.svg"):
        graph(out=tmp_path / "picture.doc")
    with pytest.raises(UserError, match="No such file"):
        graph(out=tmp_path / "nowhere/picture.png")
    done = CliRunner().invoke(main, ["graph", "--do", "spotlight=1"])
    assert done.exit_code == 2
    assert "Did you mean" in done.output


def test_a_drawn_latent_is_a_square_with_its_distribution(tmp_path: Path) -> None:
    arrows, labels = arrows_and_labels(published_model(), {"x": "normal(0.5 * z, 0.1)"})
    # x loses the class and the spotlight, and gets z.
    assert arrows == 10 - 2 + 1
    assert "~ normal(0.5 * z, 0.1)" in labels
    (tmp_path / "own.toml").write_text(
        '[class]\nweight = "2 + z"\n[x]\nmean = 0\nsd = 1\nnoise = "laplace"\n'
        '[y]\nmixture = [{mean = 0, sd = "1.5 + z"}, {mean = "x", sd = 1}]\n'
    )
    model = load_model(str(tmp_path / "own.toml"))
    arrows, labels = arrows_and_labels(model)
    assert arrows == 3
    assert {"drawn", "laplace", "mixture of 2"} <= set(labels)
    held = arrows_and_labels(model, {"x": 0.5, "class": "Hare"})[1]
    assert not {"drawn", "laplace"} & set(held)
    axes = draw_graph(model).axes[0]
    styles = [text.arrow_patch.get_linestyle() for text in axes.texts if getattr(text, "arrow_patch", None)]
    assert styles.count("-") == 2  # z sets the class, x the mean of y; z sets a spread of y


def test_text_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text("[y]\nmean = 'x'\nsd = 0.5\n")
    graph("own.toml")
    graph(out="g.png")
    assert {"graph.png", "g.png"} <= {path.name for path in tmp_path.iterdir()}


def test_means_outside_the_range_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[x]\nmean = '2 * y'\nsd = 0.5\n")
    done = CliRunner().invoke(main, ["graph", "--graph", str(file), "--out", str(tmp_path / "g.png")])
    assert done.exit_code == 0
    assert "Note: The mean of x lies outside" in done.stderr


def test_the_page_on_graphs_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its graphs are drawn from, its graph commands run, and its interventions are ones that `render` takes."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/how-to/own-graph.md").read_text(encoding="utf-8")
    # What it says of a user's own scene is tried where that can be rendered.
    page = re.sub(r"## Over the factors of your own scene.*?(?=^## )", "", page, flags=re.MULTILINE | re.DOTALL)
    graphs = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(graphs) == 2
    for text in graphs:
        Path("own.toml").write_text(text)
        world = World("causal3dident", graph=load_model("own.toml"))
        drawn = draw(world, seed=0, split="train", start=0, count=500).raw
        varied = [NAMES.index(name) for name in tomllib.loads(text) if name in NAMES]
        assert drawn[:, varied].std(axis=0).min() > 0.05
    # The first of the graphs is the one that the page's commands draw.
    Path("own.toml").write_text(graphs[0])
    shell = "\n".join(re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    lines = [shlex.split(line, comments=True)[1:] for line in shell.splitlines() if line.startswith("ident3d ")]
    for words in lines:
        if words[0] == "graph":
            done = CliRunner().invoke(main, words[: words.index(">")] if ">" in words else words)
            assert done.exit_code == 0, done.output
    given = [word for words in lines for option, word in pairwise(words) if option == "--do"]
    assert len(given) >= 6
    for text in given:
        assert World("causal3dident", do=assignments([text])).do
