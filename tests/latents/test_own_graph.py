"""Causal graphs over declared factors: parents of every kind, interventions, twins, and mistakes in one sentence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ident3d import Environment, Factor, Factors, Sequences, UserError, Views
from ident3d.latents import draw
from ident3d.latents.crowding import crowded_latents
from ident3d.latents.own_graph import empty_text, independent, own_interventions
from ident3d.latents.sequence_draws import draw_images

FACTORS = (
    Factor("x", range=(0, 10), group="place"),
    Factor("y", range=(0, 10), group="place"),
    Factor("hue", "periodic", range=(0, 1)),
    Factor("shape", "categorical", values=("cube", "ball", "cone")),
    Factor("level", values=(1, 2, 4)),
    Factor("digit", "categorical", values=(3, 7)),
)
GRAPH = """
[x]
mean = "0.6 * (shape == 'cube') - 0.6 * (shape == 'ball')"
sd = 0.05

[hue]
mean = "1 + 0.2 * x"
sd = 0.1
noise = "laplace"

[shape]
weight = { cube = 2, ball = "exp(y)", cone = 1 }

[level]
mean = "y"
sd = 0.2

[digit]
weight = { 3 = "1 + (shape == 'cone')", 7 = 1 }
"""
N = 20_000


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(GRAPH)
    return tmp_path / "own.toml"


def drawn(world: Factors, n: int = N) -> dict[str, np.ndarray]:
    raw = draw(world, seed=3, split="train", start=0, count=n).raw
    return dict(zip(world.names, raw.astype(np.float64).T, strict=True))


def test_every_kind_follows_its_parents(graph: Path) -> None:
    z = drawn(Factors(FACTORS, graph=graph))
    cube, ball, cone = (z["shape"] == value for value in (-1, 0, 1))
    for rows, mean in ((cube, 0.6), (ball, -0.6), (cone, 0.0)):
        assert abs(z["x"][rows].mean() - mean) < 4 * 0.05 / np.sqrt(rows.sum())
    # The mean over y of exp(y) / (3 + exp(y)), y uniform on [-1, 1].
    share = np.log((3 + np.e) / (3 + 1 / np.e)) / 2
    assert abs(ball.mean() - share) < 4 * np.sqrt(share * (1 - share) / N)
    around = (z["hue"] - 1 - 0.2 * z["x"] + 1) % 2 - 1
    assert abs(around.mean()) < 4 * 0.1 / np.sqrt(N)
    assert abs(around.std() - 0.1) < 0.005
    assert ((z["hue"] >= -1) & (z["hue"] < 1)).all()
    assert set(np.unique(z["level"].astype(np.float32))) == {np.float32(v) for v in (-1, -1 / 3, 1)}
    assert np.corrcoef(z["level"], z["y"])[0, 1] > 0.7
    three = (z["digit"] == -1)[cone].mean()
    assert abs(three - 2 / 3) < 4 * np.sqrt(2 / 9 / cone.sum())
    assert abs((z["digit"] == -1)[~cone].mean() - 1 / 2) < 4 * 0.5 / np.sqrt((~cone).sum())


def test_a_graph_without_arrows_draws_what_is_drawn_without_one(tmp_path: Path) -> None:
    plain = draw(Factors(FACTORS), seed=1, split="test", start=5, count=300).raw
    (tmp_path / "empty.toml").write_text(empty_text(FACTORS))
    for world in (Factors(FACTORS, graph=tmp_path / "empty.toml"), Factors(FACTORS, graph=independent(FACTORS))):
        np.testing.assert_array_equal(draw(world, seed=1, split="test", start=5, count=300).raw, plain)


def test_an_intervention_changes_descendants_alone_and_any_cut_of_the_range_is_the_same(graph: Path) -> None:
    before, world = drawn(Factors(FACTORS, graph=graph), 500), Factors(FACTORS, graph=graph, do={"shape": "cone"})
    after = drawn(world, 500)
    assert (after["shape"] == 1).all()
    for name in ("y", "level"):
        np.testing.assert_array_equal(before[name], after[name])
    assert abs(after["x"].mean()) < 0.02
    later = draw(world, seed=3, split="train", start=100, count=50).raw
    np.testing.assert_array_equal(later, np.stack(list(after.values()), 1)[100:150].astype(np.float32))


@pytest.mark.parametrize("with_graph", [False, True])
def test_what_is_drawn_anew_may_have_new_parents(with_graph: bool, graph: Path) -> None:
    do = {"y": "normal(0.5 * x, 0.05)", "hue": "uniform(-0.5, 0)", "digit": "1", "x": 0.4}
    world = Factors(FACTORS, graph=graph if with_graph else None, do=do | ({"shape": "cube"} if with_graph else {}))
    z = drawn(world, 2000)
    assert (z["x"] == np.float32(0.4)).all()
    assert abs(z["y"].mean() - 0.2) < 4 * 0.05 / np.sqrt(2000)
    assert -0.5 <= z["hue"].min() < -0.45 < -0.05 < z["hue"].max() <= 0
    assert (z["digit"] == 1).all()
    assert world.mechanisms is not None
    assert ("x", "y") in world.mechanisms.edges
    assert ("x", "hue") not in world.mechanisms.edges
    assert "digit" in world.held


def test_the_record_gives_the_same_world(graph: Path) -> None:
    world = Factors(FACTORS, graph=graph, do={"hue": "laplace(0.1 * y, 0.1)", "digit": -1, "level": -1})
    again = Factors.from_dict(world.as_dict())
    assert again == world
    np.testing.assert_array_equal(list(drawn(again, 100).values()), list(drawn(world, 100).values()))
    record = world.as_dict()
    for changed in ({"graph": 3}, {"graph": {"x": {"mean": "open('f')", "sd": 1}}}, {"do": {"x": "normal(q, 1)"}}):
        with pytest.raises(UserError):
            Factors.from_dict(record | changed)


def test_environments_and_sequences_follow_the_graph(graph: Path) -> None:
    world = Factors(FACTORS, graph=graph)
    both = (Environment("plain"), Environment("set", {"shape": "ball", "y": "normal(0.5 * x, 0.01)"}))
    found = draw_images(world, Sequences(2, sigma=0.1), both, seed=0, split="train", start=0, count=400)
    first, other = found.raw[0::4], found.raw[2::4]
    assert found.classes is None
    assert len(np.unique(first[:, 3])) == 3
    assert (other[:, 3] == 0).all()
    assert abs(other[:, 1] - 0.5 * other[:, 0]).max() < 0.06
    # Without a graph an environment takes the place of an intervention.
    done = Factors(FACTORS, do={"x": 0.5})
    found = draw_images(done, None, (Environment("a"), Environment("b", {"x": -0.5})), seed=0, split="train", start=0,
                        count=4)  # fmt: skip
    assert found.raw[:, 0].tolist() == [0.5, -0.5, 0.5, -0.5]


def test_views_follow_the_graph_given_what_is_shared(graph: Path) -> None:
    world = Factors(FACTORS, graph=graph)
    found = draw_images(world, views=Views(2, private=("hue",)), seed=0, split="train", start=0, count=2000)
    one, other = (found.raw[k::2].astype(np.float64) for k in (0, 1))
    np.testing.assert_array_equal(np.delete(one, 2, 1), np.delete(other, 2, 1))
    around = (other[:, 2] - 1 - 0.2 * other[:, 0] + 1) % 2 - 1
    assert abs(around.mean()) < 4 * 0.1 / np.sqrt(1000)
    assert (one[:, 2] != other[:, 2]).all()
    with pytest.raises(UserError, match="y is private and a cause of"):
        draw_images(world, views=Views(2, private=("y",)), seed=0, split="train", start=0, count=4)


def test_crowding_is_told_of_own_factors(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[x]\nmean = \"2 * y + (shape == 'cube')\"\nsd = 0.3\n")
    (sentence,) = crowded_latents(Factors(FACTORS, graph=tmp_path / "own.toml"))
    assert sentence.startswith("The mean of x lies outside its range")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[shap]\nmean = 0\nsd = 1", "Did you mean 'shape'"),
        ("x = 3", "x is a table"),
        ("[x]\nmean = 'y'", "both a mean and an sd"),
        ("[x]\nmean = 'q'\nsd = 1", "no latent (in the mean of x) 'q'"),
        ("[x]\nmean = 'hue'\nsd = 1\n[hue]\nmean = 'x'\nsd = 1", "cycle"),
        ("[x]\nmean = 'shape'\nsd = 1", "shape is categorical"),
        ("[x]\nmean = \"hue == 'red'\"\nsd = 1", "hue is a number"),
        ("[x]\nmean = \"shape == 'cub'\"\nsd = 1", "no value of shape 'cub'"),
        ("[x]\nmean = \"shape != 'cube'\"\nsd = 1", "only"),
        ("[x]\nmean = \"'cube' == shape\"\nsd = 1", "only"),
        ("[x]\nmean = { cube = 1 }\nsd = 1", "(shape == 'cube')"),
        ("[x]\nmean = 0\nsd = 'y'", "The sd of x"),
        ("[shape]\nmean = 0\nsd = 1", "`weight` alone"),
        ("[shape]\nweight = { cube = 1 }", "says nothing of its value ball"),
        ("[shape]\nweight = { cube = 1, ball = 'y', cone = 1 }", "must be above 0"),
        ("[shape]\nweight = { cup = 1 }", "no value of shape 'cup'"),
        ("[hue]\nmean = 0\nsd = 1\nrange = [0, 1]", "periodic"),
        ("[hue]\nmean = 9999\nsd = 1", "go round"),
        ("[x\n", "not TOML"),
    ],
)
def test_mistakes_in_a_graph_are_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        Factors(FACTORS, graph=tmp_path / "own.toml")
    assert str(caught.value).startswith("own.toml: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value).rstrip()


@pytest.mark.parametrize(
    ("do", "says"),
    [
        ({"shape": "normal(0, 1)"}, "categorical"),
        ({"shape": "cup"}, "cube, ball, cone"),
        ({"z": 1}, "no factor 'z'"),
        ({"x": 2}, "from -1 to 1"),
        ({"x": "normal(q, 1)"}, "'q'"),
        ({"x": "normal(shape, 1)"}, "categorical"),
        ({"x": "normal(y, 1)", "y": "normal(x, 1)"}, "cycle"),
    ],
)
def test_mistakes_in_interventions_are_one_sentence(do: dict[str, float | str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Factors(FACTORS, do=do)


def test_fix_and_do_are_told_apart(graph: Path) -> None:
    with pytest.raises(UserError, match="--do x=0"):
        Factors(FACTORS, fixed={"x": 0}, graph=graph)
    with pytest.raises(UserError, match="take one of the two"):
        Factors(FACTORS, fixed={"place": 0}, do={"x": 1})
    both = Factors(FACTORS, fixed={"place": 0}, do={"shape": "cone"})
    assert both.held == {"x": 0, "y": 0, "shape": 1}
    assert replace(both, do={}).held == {"x": 0, "y": 0}


def test_options_are_read() -> None:
    texts = ["shape=cube", "x ~ normal(0.5 * y, 0.1)", " y = 1 ", "place=normal(0, 1)"]
    assert own_interventions(texts) == {
        "shape": "cube", "x": "normal(0.5 * y, 0.1)", "y": "1", "place": "normal(0, 1)",
    }  # fmt: skip
    for text in ("x", "x=", "~normal(0, 1)", "x ~ 3", "x ~ beta(1, 2)"):
        with pytest.raises(UserError):
            own_interventions([text])
    with pytest.raises(UserError, match="two values"):
        own_interventions(["x=1", "x ~ normal(0, 1)"])


@pytest.mark.parametrize(
    ("graph", "do", "said"),
    [
        ('[x]\nrange = [0.1, 1]\n[y]\nmean = "0.001 / x"\nsd = 0.1', {"x": 0}, "perhaps by 0"),
        ('[x]\nrange = [0.1, 1]\n[shape.weight]\ncube = "x"\nball = 1\ncone = 1', {"x": -1}, "above 0"),
        ('[level]\nrange = [-0.9, -0.7]\n[y]\nmean = 0\nsd = "1 + level"', {}, "sd of y"),
        ('[one]\nrange = [0.1, 1]\n[y]\nmean = "0.01 / one"\nsd = 0.1', {}, "perhaps by 0"),
        ('[y]\nmean = "0.1 * pi"\nsd = 0.1', {}, "pi"),
    ],
)
def test_formulas_hold_for_the_values_that_latents_really_have(
    tmp_path: Path, graph: str, do: dict[str, float], said: str
) -> None:
    """Interventions, listed values and single values lie where a range does not."""
    (tmp_path / "own.toml").write_text(graph)
    factors = (*FACTORS, Factor("one", values=(5,)), Factor("pi", range=(0, 1)))
    with pytest.raises(UserError, match=said):
        Factors(factors, graph=tmp_path / "own.toml", do=do)
    with pytest.raises(UserError, match=said):
        draw_images(
            Factors(factors, graph=tmp_path / "own.toml"), None, (Environment("plain"), Environment("set", do)),
            seed=0, split="train", start=0, count=1,
        )  # fmt: skip


def test_a_value_within_the_range_is_no_other_range(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[x]\nrange = [0.1, 1]\n[y]\nmean = "0.01 / x"\nsd = 0.1')
    z = drawn(Factors(FACTORS, graph=tmp_path / "own.toml", do={"x": 0.5, "hue": "normal(0, 0.1)"}))
    assert abs(z["y"].mean() - 0.02) < 0.01
    assert (z["x"] == 0.5).all()
