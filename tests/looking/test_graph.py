"""``ident3d graph``: the picture of the causal graph."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents.exact.causal import CausalModel, published_model, published_text
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
    with pytest.raises(UserError, match=r"choose one of \.png"):
        graph(tmp_path / "picture.doc")
    with pytest.raises(UserError, match="No such file"):
        graph(tmp_path / "nowhere/picture.png")
    done = CliRunner().invoke(main, ["graph", "--do", "spotlight=1"])
    assert done.exit_code == 2
    assert "Did you mean" in done.output
