"""Everything that a graph of one's own can say, drawn and held against the model: by its distribution and its moments.

The graph is written twice, as a file and with SciPy's distributions.
"""

import hashlib
import json
import tomllib
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ident3d.errors import UserError
from ident3d.latents import NAMES, CausalModel, World, draw, published_model
from ident3d.latents.crowding import crowded_latents
from ident3d.latents.exact.names import CLASSES

Float64 = NDArray[np.float64]
N = 60_000
TEXT = """
classes = ["Teapot", "Cow", "Horse"]
[class]
weight = { Teapot = 1, Cow = "1 + 0.5 * spotlight_position", Horse = "exp(2 * spotlight_position)" }
[x]
mean = "tanh(2 * spotlight_position)"
sd = "0.1 + 0.3 * abs(spotlight_position)"
[y]
mean = "max(x, 0) ** 1.5 - 0.5"
sd = { Teapot = 0.2, Cow = 0.3, Horse = "0.1 * exp(x)" }
noise = "laplace"
range = [-0.8, 0.9]
[object_hue]
mixture = [
    { weight = 1, mean = -0.5, sd = 0.1 },
    { weight = "exp(x)", mean = { Teapot = 0.7, Cow = "0.5 * ground_hue", Horse = 0 }, sd = 0.2, noise = "laplace" },
    { weight = 0.2, mean = "min(x, y, 0)", sd = 0.05 },
]
"""
MODEL = CausalModel.from_dict(tomllib.loads(TEXT))


@cache
def drawn() -> tuple[dict[str, Float64], NDArray[np.int8]]:
    raw, classes = draw(World("causal3dident", graph=MODEL), seed=5, split="test", start=0, count=N)
    assert classes is not None
    return {name: raw[:, k].astype(np.float64) for k, name in enumerate(NAMES)}, classes


def truncated(kind: str, low: float, high: float, mean: Any, sd: Any) -> Any:
    """The distribution function of mean + sd · noise within [low, high]."""
    whole = stats.norm(mean, sd) if kind == "normal" else stats.laplace(mean, sd / np.sqrt(2))
    return lambda t: (whole.cdf(t) - whole.cdf(low)) / (whole.cdf(high) - whole.cdf(low))


def by_class(classes: NDArray[np.int8], **values: Any) -> Float64:
    return np.select(
        [classes == CLASSES.index(name) for name in values],
        [np.broadcast_to(v, classes.shape) for v in values.values()],
    )


def probabilities(s: Float64) -> Float64:
    weights = np.stack([np.ones_like(s), 1 + 0.5 * s, np.exp(2 * s)])
    return weights / weights.sum(axis=0)


def within_distributions(z: dict[str, Float64], classes: NDArray[np.int8]) -> dict[str, Float64]:
    """P(z_k ≤ its value | parents) for the latents that have parents: uniform, whatever the parents are."""
    s, x, y, hue = z["spotlight_position"], z["x"], z["y"], z["object_hue"]
    sd = by_class(classes, Teapot=0.2, Cow=0.3, Horse=0.1 * np.exp(x))
    centre = by_class(classes, Teapot=0.7, Cow=0.5 * z["ground_hue"], Horse=0)
    weights = np.stack([np.ones(len(x)), np.exp(x), np.full(len(x), 0.2)])
    parts = [("normal", -0.5, 0.1), ("laplace", centre, 0.2), ("normal", np.minimum(np.minimum(x, y), 0), 0.05)]
    found = np.stack([truncated(kind, -1, 1, mean, width)(hue) for kind, mean, width in parts])
    return {
        "x": truncated("normal", -1, 1, np.tanh(2 * s), 0.1 + 0.3 * np.abs(s))(x),
        "y": truncated("laplace", -0.8, 0.9, np.maximum(x, 0) ** 1.5 - 0.5, sd)(y),
        "object_hue": (weights * found).sum(axis=0) / weights.sum(axis=0),
    }


@pytest.mark.parametrize("name", ["x", "y", "object_hue"])
def test_latents_follow_their_mechanism(name: str) -> None:
    z, classes = drawn()
    u = within_distributions(z, classes)[name]
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    for parent in ("spotlight_position", "x", "ground_hue"):
        if parent != name:
            assert abs(np.corrcoef(u, z[parent])[0, 1]) < 4 / np.sqrt(N), parent
    low, high = (MODEL.nodes[name].low, MODEL.nodes[name].high)
    assert low <= z[name].min() < z[name].max() <= high


def test_classes_follow_their_weights() -> None:
    z, classes = drawn()
    s = z["spotlight_position"]
    p = probabilities(s)
    for k, name in enumerate(MODEL.classes):
        miss = (classes == CLASSES.index(name)) - p[k]
        for weight in (np.ones_like(s), s, s * s):
            error = weight * miss
            assert abs(error.mean()) < 4 * error.std() / np.sqrt(N), name
    assert set(np.unique(classes)) == {CLASSES.index(name) for name in MODEL.classes}


@cache
def implied() -> dict[str, tuple[float, float]]:
    """Mean and mean square of each latent, by quadrature over the spotlight, then x, then the latent's own density."""
    s, ws = np.polynomial.legendre.leggauss(40)
    grid = np.linspace(-1, 1, 1601)
    cells = (grid[1:] + grid[:-1]) / 2
    # Over a grid of cells, so that distribution functions alone are needed: weights (spotlight, x).
    px = np.diff(truncated("normal", -1, 1, np.tanh(2 * s), 0.1 + 0.3 * np.abs(s))(grid[:, None]), axis=0).T
    joint = px * (ws / 2)[:, None]
    moments = {"x": (float((joint @ cells).sum()), float((joint @ cells**2).sum()))}
    first = second = 0.0
    ends = np.linspace(-0.8, 0.9, 401)
    mid = (ends[1:] + ends[:-1]) / 2
    for k, sd in enumerate((0.2, 0.3, 0.1 * np.exp(cells))):
        p = (joint * probabilities(s)[k][:, None]).sum(axis=0)
        py = np.diff(truncated("laplace", -0.8, 0.9, np.maximum(cells, 0) ** 1.5 - 0.5, sd)(ends[:, None]), axis=0)
        first, second = first + float(p @ (mid @ py)), second + float(p @ (mid**2 @ py))
    return moments | {"y": (first, second)}


@pytest.mark.parametrize("name", ["x", "y"])
def test_moments_are_the_models(name: str) -> None:
    z = drawn()[0][name]
    for power, expected in zip((1, 2), implied()[name], strict=True):
        assert abs((z**power).mean() - expected) < 4 * (z**power).std() / np.sqrt(N) + 1e-5, power


def test_recorded_graphs_are_read_again() -> None:
    assert CausalModel.from_dict(json.loads(json.dumps(MODEL.as_dict()))) == MODEL
    assert MODEL.parents["class"] == {"spotlight_position"}
    assert MODEL.parents["object_hue"] == {"class", "x", "y", "ground_hue"}
    assert MODEL.order.index("spotlight_position") < MODEL.order.index("class") < MODEL.order.index("y")
    world = World("causal3dident", graph=MODEL, do={"x": "laplace(0.2, 0.1)", "y": 0.5, "class": "Cow"})
    record = json.loads(json.dumps(world.as_dict()))
    assert record["fixed"] == {"class": "Cow", "x": "laplace(0.2, 0.1)", "y": 0.5}
    assert World.from_dict(record) == world
    # The published record has nothing that older versions did not write.
    published = published_model().as_dict()
    assert set(published) == {"classes", *NAMES}
    assert {key for name in NAMES for key in published[name]} == {"mean", "sd"}
    assert published["z"] == {"mean": "0", "sd": 0.5}


def test_any_part_of_the_images_gets_the_same_classes_and_latents() -> None:
    world = World("causal3dident", graph=MODEL)
    whole = draw(world, seed=5, split="test", start=0, count=300)
    part = draw(world, seed=5, split="test", start=100, count=50)
    assert part.raw.tobytes() == whole.raw[100:150].tobytes()
    assert whole.classes is not None
    assert part.classes is not None
    assert part.classes.tolist() == whole.classes[100:150].tolist()


def test_chosen_classes_share_what_the_weights_give_them() -> None:
    _, classes = draw(
        World("causal3dident", graph=MODEL, classes=("Horse", "Cow")), seed=0, split="train", start=0, count=9000
    )
    s = (
        draw(World("causal3dident", graph=MODEL), seed=0, split="train", start=0, count=9000)
        .raw[:, 6]
        .astype(np.float64)
    )
    horse = np.exp(2 * s) / (np.exp(2 * s) + 1 + 0.5 * s)
    error = (classes == CLASSES.index("Horse")) - horse
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(9000)
    _, held = draw(World("causal3dident", graph=MODEL, do={"class": "Cow"}), seed=0, split="train", start=0, count=50)
    assert set(held.tolist()) == {CLASSES.index("Cow")}  # type: ignore[union-attr]


def test_an_intervention_may_draw_a_latent_anew() -> None:
    def latents(do: dict[str, float | str]) -> NDArray[np.float32]:
        return draw(World("causal3dident", do=do), seed=1, split="train", start=0, count=20_000).raw

    free, redrawn = latents({}), latents({"spotlight_position": "normal(0.2, 0.3)", "z": "laplace(0.8 * y, 0.1)"})
    changed = {name for k, name in enumerate(NAMES) if (free[:, k] != redrawn[:, k]).any()}
    # A drawn latent keeps its random number, so that Laplace noise keeps its order.
    assert changed == {"spotlight_position", "x", "y", "z"}
    s, y, z = (redrawn[:, NAMES.index(name)].astype(np.float64) for name in ("spotlight_position", "y", "z"))
    assert stats.kstest(truncated("normal", -1, 1, 0.2, 0.3)(s), "uniform").pvalue > 1e-4
    assert stats.kstest(truncated("laplace", -1, 1, 0.8 * y, 0.1)(z), "uniform").pvalue > 1e-4
    rotations = latents({"rotation": "uniform(-0.5, 0)", "rotation_psi": 1})[:, 3:6]
    assert stats.kstest(rotations[:, 0], stats.uniform(-0.5, 0.5).cdf).pvalue > 1e-4
    assert (rotations[:, 2] == 1).all()


def test_what_is_set_may_be_a_parent_of_what_it_came_from() -> None:
    """Interventions cut arrows before others are drawn: x and class are set, so that their parents may follow them."""
    tables = published_model().as_dict() | {"class": {"weight": dict.fromkeys(CLASSES, 1) | {"Hare": "2 + z"}}}
    assert "spotlight_position" in CausalModel.from_dict(tables).parents["x"]
    do = {"class": "Hare", "x": 0.5, "spotlight_position": "normal(x, 0.01)", "z": "normal(x - rotation_phi, 0.1)"}
    world = World("causal3dident", graph=CausalModel.from_dict(tables), do=do)
    raw, classes = draw(world, seed=0, split="train", start=0, count=2000)
    assert (raw[:, 0] == 0.5).all()
    assert abs(raw[:, 6].mean() - 0.5) < 0.001
    assert (classes == 1).all()
    assert World.from_dict(world.as_dict()) == world
    with pytest.raises(UserError, match="cycle"):
        World("causal3dident", do={"spotlight_position": "normal(x, 0.01)"})


def test_a_changed_mechanism_keeps_the_noise() -> None:
    """Image i of both worlds is a pair of twins: what does not descend from the change is equal."""
    tables = published_model().as_dict() | {"spotlight_hue": {"mean": -0.6, "sd": 0.2}}
    other = World("causal3dident", graph=CausalModel.from_dict(tables))
    one, two = (draw(w, seed=1, split="train", start=0, count=7000).raw for w in (World("causal3dident"), other))
    changed = {name for k, name in enumerate(NAMES) if (one[:, k] != two[:, k]).any()}
    assert changed == {"spotlight_hue", "object_hue"}
    # Each image stands at the same share of both distributions, counted from above where the mean is below the middle.
    assert stats.spearmanr(one[:, 8], two[:, 8]).statistic < -0.999


def test_means_outside_the_range_are_told_with_their_share() -> None:
    assert crowded_latents(World("causal3dident")) == []
    assert crowded_latents(World()) == []
    model = CausalModel.from_dict(
        {"x": {"mean": "3 * y", "sd": 0.3}, "z": {"mean": "2 * y ** 2", "sd": 0.3, "range": [0, 1]}}
    )
    (x, z) = crowded_latents(World("causal3dident", graph=model))
    raw, _ = draw(World("causal3dident", graph=model), seed=0, split="test", start=0, count=2000)
    outside, near = np.abs(3 * raw[:, 1]) > 1, np.abs(raw[:, 0]) > 0.98
    assert f"mean of x lies outside its range [-1, 1] in {100 * outside.mean():.0f} % of images" in x
    assert f"{100 * near.mean():.0f} % of its draws lie within 0.02" in x
    assert "z lies outside its range [0, 1]" in z
    assert len(crowded_latents(World("causal3dident", graph=model, do={"y": 0.1}))) == 0
    assert len(crowded_latents(World("causal3dident", do={"x": "normal(1.5, 0.3)"}))) == 1
    with pytest.raises(UserError, match="30 sd outside"):
        CausalModel.from_dict({"x": {"mean": "3 * y", "sd": "0.01 + y * y"}})


def test_records_of_the_first_version_give_the_same_bytes() -> None:
    """A record and its latents as ident3d wrote them before graphs had noise, mixtures and drawn classes."""
    x = {"mean": {"Cow": "0.5*y - 0.3", "Hare": "sin(pi*z)"}, "sd": 1.0, "range": [-0.5, 1.0]}
    graph = {"classes": ["Cow", "Hare"], "x": x, "z": {"mean": "0.25", "sd": 0.1}}
    fixed = {"class": "Hare", "rotation_phi": 0.25}
    world = World.from_dict({"scene": "causal3dident", "fixed": fixed, "graph": graph, "classes": ["Cow", "Hare"]})
    raw, _ = draw(world, seed=3, split="test", start=5, count=500)
    digest = "e640b37123d9717fa6f107439ddc01becbf5d467039cae48e2472f3a14a661ef"
    assert hashlib.sha256(raw.astype("<f4").tobytes()).hexdigest() == digest
    recorded = world.as_dict()
    assert recorded["fixed"] == fixed
    assert {name: table for name, table in recorded["graph"].items() if table} == graph
