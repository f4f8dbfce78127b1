"""The causal world: interventions, classes, graphs from files, and what is refused."""

import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from scipy import stats

from ident3d.errors import UserError
from ident3d.latents import NAMES, World, draw
from ident3d.latents.attainable import attainable_r2
from ident3d.latents.exact.causal import CausalModel, load_model, published_model, published_text
from ident3d.latents.exact.causal_draws import sample
from ident3d.latents.exact.formula import Formula
from ident3d.latents.exact.names import CLASSES, assignments, short_name
from ident3d.latents.exact.streams import words

CAUSAL = World("causal3dident")


def images(world: World, count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    raw, classes = draw(world, seed=2, split="train", start=3, count=count)
    assert classes is not None
    return raw, classes


def test_published_graph() -> None:
    model = published_model()
    assert model.classes == CLASSES
    roots = {"spotlight_position", "spotlight_hue", "ground_hue", "z"}
    parents = {name: set(node.parents) for name, node in model.nodes.items()}
    assert {name for name in NAMES if not parents[name]} == roots
    assert parents["rotation_psi"] == {"class"}
    assert parents["x"] == parents["y"] == {"class", "spotlight_position"}
    assert parents["object_hue"] == {"class", "ground_hue", "spotlight_hue"}
    assert len(model.edges) == 3 + 4 + 3
    names = ("class", *NAMES)
    assert {(names[i], names[j]) for i, j in np.argwhere(model.adjacency)} == set(model.edges)


def test_any_cutting_gives_the_same_bytes() -> None:
    assert draw(CAUSAL, seed=2, split="train", start=3, count=0).raw.shape == (0, 10)
    whole, classes = images(CAUSAL, 50)
    parts = [draw(CAUSAL, seed=2, split="train", start=3 + i, count=10) for i in range(0, 50, 10)]
    assert np.concatenate([part.raw for part in parts]).tobytes() == whole.tobytes()
    np.testing.assert_array_equal(np.concatenate([part.classes for part in parts if part.classes is not None]), classes)
    assert whole.dtype == np.float32
    assert classes.dtype == np.int8
    np.testing.assert_array_equal(classes, (np.arange(50) + 3) % 7)


def test_every_machine_gets_these_bytes() -> None:
    raw, _ = images(CAUSAL, 7000)
    assert (
        hashlib.sha256(raw.astype("<f4").tobytes()).hexdigest()
        == "74ba8704ebeb9a47714faa4ff84878b3c4c8ed2243411a5edf99baeb58bf3584"
    )


def test_scene_values() -> None:
    raw, _ = images(CAUSAL, 10)
    np.testing.assert_allclose(CAUSAL.to_scene(raw), raw * np.array([2] * 3 + [np.pi / 2] * 7), rtol=1e-6)


def test_interventions_change_descendants_and_nothing_else() -> None:
    free, classes = images(CAUSAL)
    raw, same = images(World("causal3dident", do={"spotlight_position": 0.5}))
    np.testing.assert_array_equal(classes, same)
    assert (raw[:, 6] == 0.5).all()
    changed = {NAMES[k] for k in range(10) if (raw[:, k] != free[:, k]).any()}
    assert changed == {"x", "y", "spotlight_position"}
    hares = raw[classes == 1]
    mu = -np.sin(np.pi / 4)
    expected = stats.truncnorm((-1 - mu) / 0.5, (1 - mu) / 0.5, mu, 0.5)
    assert stats.kstest(hares[:, 0], expected.cdf).pvalue > 1e-4
    raw, _ = images(World("causal3dident", do={"rotation": 0.25, "x": -1}))
    assert (raw[:, 3:6] == 0.25).all()
    assert (raw[:, 0] == -1).all()
    np.testing.assert_array_equal(raw[:, [1, 2, 6, 7, 8, 9]], free[:, [1, 2, 6, 7, 8, 9]])


def test_classes_can_be_held_and_picked() -> None:
    raw, classes = images(World("causal3dident", do={"class": "Hare"}))
    assert (classes == 1).all()
    assert raw[:, 3].mean() == pytest.approx(0.263, abs=0.04)
    _, classes = images(World("causal3dident", classes=("Head", "Cow")), 5)
    np.testing.assert_array_equal(classes, [3, 6, 3, 6, 3])  # from image 3 on


@pytest.mark.parametrize(
    "world",
    [
        CAUSAL,
        World("causal3dident", classes=("Cow",), do={"class": "Cow", "hue": 0.5}),
        World("causal3dident", hue_range=1),
    ],
)
def test_manifest_round_trip(world: World) -> None:
    rebuilt = World.from_dict(json.loads(json.dumps(world.as_dict())))
    assert rebuilt == world
    assert pickle.loads(pickle.dumps(world)) == world
    assert images(rebuilt)[0].tobytes() == images(world)[0].tobytes()


def test_attainable_r2() -> None:
    r2 = attainable_r2(CAUSAL)
    assert r2["spotlight_hue"] == pytest.approx(1 - 1 / 64, abs=5e-4)
    assert r2["ground_hue"] == pytest.approx(1 - 1 / 729, abs=2e-4)
    assert 0.94 < (r2["object_hue"] or 0) < 0.963  # narrower than uniform, so that the stretch holds more of it
    assert attainable_r2(World("causal3dident", hues="wrapped"))["object_hue"] == 1.0
    assert "class" not in attainable_r2(World("causal3dident", do={"class": "Cow"}))


def test_graph_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "graph.toml"
    file.write_text(
        """
        classes = ["Cow", "Hare"]
        [z]
        mean = "x * y - 2 * cos(pi * object_hue) / 4"
        sd = 0.1
        range = [0, 0.5]
        [object_hue]
        mean.Cow = -3
        mean.Hare = "+z_not"
        sd = 0.25
    """.replace("z_not", "x")
    )
    model = load_model(file)
    assert model.nodes["z"].parents == {"x", "y", "object_hue"}
    raw, classes = images(World("causal3dident", graph=model), 20_000)
    assert set(classes.tolist()) == {1, 3}
    z = raw[:, 2].astype(np.float64)
    assert 0 <= z.min() < z.max() <= 0.5
    x, y, hue = (raw[:, k].astype(np.float64) for k in (0, 1, 7))
    mu = x * y - 0.5 * np.cos(np.pi * hue)
    u = stats.truncnorm((0 - mu) / 0.1, (0.5 - mu) / 0.1, mu, 0.1).cdf(z)
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    cows = hue[classes == 3]  # eight standard deviations outside: the tail of a normal is nearly exponential
    assert stats.kstest(cows, stats.truncnorm(2 / 0.25, 4 / 0.25, -3, 0.25).cdf).pvalue > 1e-4
    assert CausalModel.from_dict(model.as_dict()) == model


def test_far_upper_tail_is_as_good_as_the_lower() -> None:
    up = CausalModel.from_dict({"x": {"mean": 3, "sd": 0.25}})
    down = CausalModel.from_dict({"x": {"mean": -3, "sd": 0.25}})
    word = words(0, "train", 0, 20_000)
    index = np.arange(20_000)
    high, low = (sample(model, word, index, CLASSES, {})[0][:, 0].astype(np.float64) for model in (up, down))
    np.testing.assert_allclose(np.sort(high), np.sort(-low), atol=2e-3)
    assert stats.kstest(high, stats.truncnorm(-16, -8, 3, 0.25).cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[x]\nmean = 'y'\nsd = 1\n[y]\nmean = 'z'\nsd = 1\n[z]\nmean = 'x'\nsd = 1", "cycle: . → . → . → ."),
        ("[x]\nmean = '2 * x'\nsd = 1", "cycle: x → x"),
        ("[w]", "no latent 'w'"),
        ("[rotation_fi]", "Did you mean 'rotation_psi'|Did you mean 'rotation_phi'"),
        ("[x]\nmean = 'spotlight'\nsd = 1", "mean of x.*'spotlight'"),
        ("[x]\nmaen = 1\nsd = 1", "Did you mean 'mean'"),
        ("x = 3", "is a table"),
        ("[x]\nmean = 1", "needs both a mean and an sd"),
        ("[x]\nsd = 1", "needs both a mean and an sd"),
        ("[x]\nmean = 1\nsd = 0", "sd of x must be a positive number"),
        ("[x]\nmean = 1\nsd = nan", "sd of x"),
        ("[x]\nmean = 1\nsd = '0.5 * y'", "sd of x .* -0.5 to 0.5"),
        ("[x]\nmean = 1\nsd = 1\nnoise = 'gauss'", "noise .*'gauss'"),
        ("[x]\nmixture = [{mean = 1, sd = 1}]", "2 to 20"),
        ("[x]\nsd = 1\nmixture = [{mean = 1, sd = 1}, {mean = 0, sd = 1}]", "sd belongs"),
        ("[x]\nmixture = [{mean = 1, sd = 1}, {mean = 0, sd = 1, weight = 0}]", "weight '0'"),
        ("[x]\nmixture = [{mean = 1, sd = 1}, {mean = 0, sd = 1, weight = 'y'}]", "weight 'y'"),
        ("[x]\nmean = 1\nsd = 1\nweight = 1", "setting of x: 'weight'"),
        ("[x]\nmixture = [1, 2]", "component of x"),
        ("class = 3", "weight"),
        ("[class]\nweights = 1", "weight"),
        ("[class]\nweight = { Hare = 1 }", "class Teapot"),
        ("[class]\nweight = '1 + x'", "weight '1 .* x'"),
        (
            "classes = ['Cow', 'Hare']\n[class]\nweight = '2 + x'\n[x]\nmean = { Cow = 0, Hare = 1 }\nsd = 1",
            "cycle",
        ),
        ("[x]\nmean = 'y ** 0.5'\nsd = 1", "may be -1 is raised to 0.5"),
        ("[x]\nmean = 'y ** -2'\nsd = 1", "-1 and 1.*raised to -2"),
        ("[x]\nmean = '2 ** y'\nsd = 1", "exponent"),
        ("[x]\nmean = '9 ** 9 ** 9'\nsd = 1", "exponent is 3.8"),
        ("[x]\nmean = '(1e5 * y) ** 99'\nsd = 1", "beyond 1e.300"),
        ("[x]\nmean = 'exp(1e5 * y)'\nsd = 1", "exp of 100000"),
        ("[x]\nmean = 'exp(y, z)'\nsd = 1", "exp takes one number, not 2"),
        ("[x]\nmean = 'min(y)'\nsd = 1", "min takes two"),
        ("[x]\nrange = [1, 0]", "range of x"),
        ("[x]\nrange = [0, 2]", "range of x"),
        ("[x]\nrange = 'wide'", "range of x"),
        ("[x]\nmean = true\nsd = 1", "mean of x is a number"),
        ("[x]\nmean = inf\nsd = 1", "mean of x is a number"),
        ("[x]\nmean = 5\nsd = 0.1", "30 sd outside its range"),
        ("[x]\nmean = '5 * y'\nsd = 0.1", "30 sd outside its range"),
        ("[x]\nmean.Hare = 1\nsd = 1", "says nothing of the class Teapot"),
        ("[x]\nmean.Hair = 1\nsd = 1", "Did you mean 'Hare'"),
        ("classes = ['Hair']", "Did you mean 'Hare'"),
        ("classes = []", "at least one"),
        ("classes = ['Cow', 'Cow']", "listed twice"),
        ("[x", "not TOML"),
        ("x = " + "[" * 20_000, "not TOML"),
        ("[x]\nmean = 1" + "0" * 5000 + "\nsd = 1", "not TOML"),
        ("[x]\nmean = 1" + "0" * 400 + "\nsd = 1", "mean of x is a number"),
        ("[x]\nrange = [0, 1" + "0" * 400 + "]", "range of x"),
        ("[x]\nmean = 'y +'\nsd = 1", "cannot be read"),
        ("[x]\nmean = '__import__(\"os\").getpid()'\nsd = 1", "may use numbers"),
        ("[x]\nmean = 'y.real'\nsd = 1", "may use numbers"),
        ("[x]\nmean = 'y ** 99999'\nsd = 1", "exponent is 99999"),
        ("[x]\nmean = 'log(y)'\nsd = 1", "no function 'log'"),
        ("[x]\nmean = '1 / y'\nsd = 1", "divided by .* -1 and 1"),
        ("[x]\nmean = '1 / (2 - 2)'\nsd = 1", "divided by .* 0"),
        ("[x]\nmean = 'sin(999999 * y)'\nsd = 1", "beyond 100000"),
        ("[x]\nmean = '" + "-" * 400 + "1'\nsd = 1", "at most 300 characters"),
        ("[x]\nmean = '" + "(" * 250 + "1" + ")" * 49 + "'\nsd = 1", "cannot be read"),
    ],
)
def test_bad_graphs(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=says) as caught:
        load_model(file)
    assert str(caught.value).startswith("mine.toml: ")


def test_bad_graph_files(tmp_path: Path) -> None:
    for path, content, says in (
        (tmp_path / "none.toml", None, "cannot be read"),
        (tmp_path / "large.toml", b"#" * 200_000, "too large"),
        (tmp_path / "bytes.toml", b"\xff\xfe", "cannot be read"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(UserError, match=says):
            load_model(path)
    os.mkfifo(tmp_path / "fifo.toml")
    with pytest.raises(UserError, match="FIFO"):
        load_model(tmp_path / "fifo.toml")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"do": {"class": "Hair"}}, "Did you mean 'Hare'"),
        ({"do": {"class": "Hare"}, "classes": ("Cow",)}, "no class 'Hare'"),
        ({"classes": ("Cow", "Kow")}, "Did you mean 'Cow'"),
        ({"do": {"x": "left"}}, "left"),
        ({"do": {"x": 2}}, "-1 to 1"),
        ({"do": {"x": None}}, "x cannot be None"),
        ({"fixed": {"x": 0.5}}, "--do x=0.5"),
        ({"fixed": {"class": "Hare"}}, "--do class=Hare"),
        ({"scene": "3dident", "do": {"x": 0.5}}, "--fix x=0.5"),
        ({"do": {"x": "normal(0.2)"}}, "two numbers"),
        ({"do": {"x": "cauchy(0, 1)"}}, "normal, laplace, uniform"),
        ({"do": {"x": "normal(0, 0)"}}, "sd of x"),
        ({"do": {"x": "normal(9, 0.1)"}}, "30 sd outside"),
        ({"do": {"x": "uniform(0, 2)"}}, "range of x"),
        ({"do": {"x": "uniform(y, 1)"}}, "range of x"),
        ({"do": {"spotlight_position": "normal(x, 1)"}}, "cycle"),
        ({"do": {"x": "normal(__import__('os').getpid(), 1)"}}, "may use numbers"),
        ({"do": {"x": "normal(" + "-" * 400 + "1, 1)"}}, "two numbers"),
        ({"scene": "3dident", "classes": ("Cow",)}, "neither a causal graph nor classes"),
        ({"scene": "3dident", "fixed": {"class": "Cow"}}, "no classes"),
        ({"graph": CausalModel.from_dict({"classes": ["Cow"]}), "classes": ("Hare",)}, "class of the graph 'Hare'"),
    ],
)
def test_bad_causal_worlds(settings: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        World(**({"scene": "causal3dident"} | settings))  # type: ignore[arg-type]


def test_published_text_is_the_published_graph(tmp_path: Path) -> None:
    file = tmp_path / "copy.toml"
    file.write_text(published_text())
    assert load_model(file) == published_model() == CausalModel.from_dict(published_model().as_dict())


NUMBERS = st.integers(-9, 9).map(str)
FORMULAS = st.recursive(
    NUMBERS | st.sampled_from(["x", "y", "pi", "0.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(st.sampled_from(["sin", "-cos", "tanh", "abs"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
        inner.map(lambda t: f"exp(-abs({t}))"),
        st.tuples(inner, st.integers(1, 9)).map(lambda t: f"({t[0]}) / {t[1]}"),
        st.tuples(inner, st.integers(0, 3)).map(lambda t: f"({t[0]}) ** {t[1]}"),
        inner.map(lambda t: f"1 / (1 + abs({t})) ** 1.5"),
    ),
    max_leaves=6,
)
PYTHONS = {name: getattr(np, name) for name in ("pi", "sin", "cos", "exp", "tanh", "abs")} | {"min": min, "max": max}


@given(text=FORMULAS, x=st.floats(-1, 1), y=st.floats(-1, 1))
def test_formulas_mean_what_python_means(text: str, x: float, y: float) -> None:
    formula = Formula(text)
    try:
        low, high = formula.bounds({"x": (-1, 1), "y": (-1, 1)})
    except UserError:
        # A sine of too large an angle.
        reject()
    expected = float(eval(text, {"__builtins__": {}}, {"x": x, "y": y} | PYTHONS))
    value = float(formula.value({"x": np.array(x), "y": np.array(y)}))
    largest = max(1, abs(low), abs(high))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9 * largest)
    # Rounding may leave a sine a little above 1.
    assert low - 1e-14 * largest <= value <= high + 1e-14 * largest


def test_short_names_are_each_latents_own() -> None:
    short = [short_name(name) for name in (*NAMES, *World("3dident-periodic").names[3:])]
    assert len(set(short)) == 18
    assert max(map(len, short)) <= 6
    assert short_name("shape") == "shape"


def test_assignments() -> None:
    assert assignments(["rotation=0", " class = Hare ", "x=-0.5"]) == {"rotation": 0.0, "class": "Hare", "x": -0.5}
    assert assignments(["y ~ normal(0.2, x)"]) == {"y": "normal(0.2, x)"}
    for text, says in (
        ("x", "not of the form"),
        ("x=", "not of the form"),
        ("x~", "not of the form"),
        ("class~normal(0, 1)", "class=Hare"),
        ("x=left", "takes a number"),
        ("w=1", "no latent 'w'"),
    ):
        with pytest.raises(UserError, match=says):
            assignments([text])
    with pytest.raises(UserError, match="two values"):
        assignments(["x=1", "x=2"])
