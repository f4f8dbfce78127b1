"""Views of one z: shared latents are equal, private ones are drawn anew, and each depends on its number alone."""

from typing import Any

import numpy as np
import pytest

from ident3d import Environment, Factor, Factors, Sequences, UserError, Views, World
from ident3d.latents import draw
from ident3d.latents.distributions.spaces import distance, goes_round
from ident3d.latents.exact.causal import CausalModel
from ident3d.latents.own_graph import read_graph
from ident3d.latents.sequence_draws import Frames, draw_images
from ident3d.latents.view_draws import asked_changes
from ident3d.latents.worlds import AnyWorld

BOX, PERIODIC, CAUSAL = World(), World("3dident-periodic"), World("causal3dident")
OWN = Factors(
    (
        Factor("a", range=(0, 1)),
        Factor("turn", "periodic", range=(0, 360)),
        Factor("shape", "categorical", values=("ball", "cube", "cone")),
        Factor("steps", values=(1, 2, 3, 4)),
    )
)
CASES: list[tuple[AnyWorld, dict[str, Any]]] = [
    (BOX, {"private": ("hue", "x")}),
    (BOX, {"private": ("hue", "x"), "cond": "laplace", "sigma": 0.3}),
    (World(fixed={"x": 0.5}), {"private": ("position",)}),
    (PERIODIC, {"private": ("sphere",)}),
    (PERIODIC, {"private": ("sphere",), "cond": "normal,vmf", "kappa": 20.0}),
    (CAUSAL, {"private": ("position", "object_hue")}),
    (CAUSAL, {"private": CAUSAL.names}),
    (OWN, {"private": ("turn", "shape")}),
    (OWN, {"private": ("steps", "shape"), "cond": "uniform", "sigma": 0.5}),
]


def views(
    world: AnyWorld, number: int = 2, *, start: int = 0, count: int = 20_000, environments: Any = (), **given: Any
) -> Frames:
    how = None, environments, Views(number, **given)
    return draw_images(world, *how, seed=3, split="train", start=start, count=count)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_shared_latents_are_equal_and_private_ones_as_wide_as_asked(case: int) -> None:
    world, given = CASES[case]
    found = views(world, 3, count=30_000, **given)
    z = found.raw.astype(np.float64).reshape(-1, 3, world.n_raw)
    names = Views(3, **given).private_names(world)
    private = np.array([name in names and name not in world.held for name in world.names])
    assert (z[:, 1:, ~private] == z[:, :1, ~private]).all()
    assert private.any()
    # A factor with few values is the same now and then, a continuous one never.
    assert (np.mean(z[:, 0][:, private] != z[:, 1][:, private], axis=0) > 0.3).all()
    asked = asked_changes(world, Views(3, **given))
    wide = np.mean([distance(world.space, z[:, a], z[:, b]).mean(axis=0) for a, b in ((0, 1), (0, 2), (1, 2))], axis=0)
    np.testing.assert_allclose(wide, asked, rtol=0.03)
    np.testing.assert_array_equal(found.columns["instance"], np.arange(30_000) // 3)
    np.testing.assert_array_equal(found.columns["view"], np.arange(30_000) % 3)
    if found.classes is not None:
        assert (found.classes.reshape(-1, 3) == found.classes[::3, None]).all()
        assert found.classes.max() == 6


@pytest.mark.parametrize("case", [0, 2, 3, 6, 7])
def test_from_the_marginal_private_latents_are_independent_and_each_view_has_its_moments(case: int) -> None:
    """Within 4 standard errors: of views 1 against plain images, and of products of what is drawn twice."""
    world, given = CASES[case]
    z = views(world, **given).raw.astype(np.float64).reshape(-1, 2, world.n_raw)
    plain = draw(world, seed=9, split="train", start=0, count=10_000).raw.astype(np.float64)
    # In a graph, given the class and what is shared: all of it is private here, and classes take turns.
    if world.mechanisms is not None:
        z, plain = z[::7], plain[::7]
    later = z[:, 1]
    for moment in (lambda x: x, lambda x: x**2, lambda x: x * x[:, :1]):
        one, other = moment(later), moment(plain)
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(other))
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 4 * error + 1e-7).all()
    private = Views(2, **given).private_names(world) - set(world.held)
    columns = [k for k, name in enumerate(world.names) if name in private]
    first, later = (z[:, v, columns] - z[:, v, columns].mean(axis=0) for v in (0, 1))
    for one in first.T:
        product = one[:, None] * later
        assert (np.abs(product.mean(axis=0)) <= 4.5 * product.std(axis=0) / np.sqrt(len(z))).all()
    if goes_round(world.space).any():
        turn = np.cos(np.pi * (z[:, 1, 1] - z[:, 0, 1]))
        assert abs(turn.mean()) <= 4 * turn.std() / np.sqrt(len(z))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_an_image_depends_on_its_number_alone(case: int) -> None:
    world, given = CASES[case]
    whole = views(world, 3, count=60, **given)
    for start, count in ((0, 1), (1, 7), (26, 5), (59, 1), (30, 0)):
        part = views(world, 3, start=start, count=count, **given)
        np.testing.assert_array_equal(part.raw, whole.raw[start : start + count])
        np.testing.assert_array_equal(part.columns["view"], whole.columns["view"][start : start + count])
    plain = draw(world, seed=3, split="train", start=0, count=60).raw
    if world.mechanisms is None:
        np.testing.assert_array_equal(whole.raw[::3], plain[::3])


def test_views_take_turns_in_environments() -> None:
    both = (Environment("plain"), Environment("held", {"hue": 0.25, "z": "normal(0, 0.1)"}))
    found = views(BOX, environments=both, private=("hue",), count=4000)
    assert found.columns["environment"].tolist()[:6] == [0, 0, 1, 1, 0, 0]
    held = found.raw[found.columns["environment"] == 1]
    assert (held[:, 7:] == 0.25).all()
    np.testing.assert_array_equal(held[::2], held[1::2])
    assert held[:, 2].std() < 0.15 < found.raw[:, 2].std()


def test_in_a_graph_private_effects_follow_their_shared_causes() -> None:
    model = CausalModel.from_dict({"classes": ["Hare", "Cow"], "y": {"mean": "0.7 * x", "sd": 0.05}})
    world = World("causal3dident", graph=model)
    z = views(world, private=("y",), count=2000).raw.reshape(-1, 2, 10)
    assert (z[:, 0, 0] == z[:, 1, 0]).all()
    assert np.abs(z[:, :, 1] - 0.7 * z[:, :, 0]).max() < 0.3
    with pytest.raises(UserError, match="x is private and a cause of y"):
        views(world, private=("x",))
    near = views(world, private=("x",), cond="normal", sigma=0.01, count=200).raw.reshape(-1, 2, 10)
    assert 0 < np.abs(near[:, 0, 0] - near[:, 1, 0]).max() < 0.1
    # Set from outside, y has no cause.
    assert views(World("causal3dident", graph=model, do={"y": 0.0}), private=("x",), count=4).raw[0, 1] == 0


def test_around_view_0_a_private_category_follows_its_private_causes() -> None:
    factors = (Factor("a", range=(-1, 1)), Factor("kind", "categorical", values=("u", "v")), Factor("b", range=(0, 1)))
    weights = {"u": "0.001 + max(a, 0)", "v": "0.001 + max(-a, 0)"}
    world = Factors(factors, graph=read_graph({"kind": {"weight": weights}}, factors))
    z = views(world, private=("a", "kind"), cond="normal", sigma=1.0, count=2000).raw.reshape(-1, 2, 3)
    clear = np.abs(z[:, 1, 0]) > 0.2
    # Of raw values, -1 is u and 1 is v.
    assert np.mean((z[:, 1, 0] < 0) == (z[:, 1, 1] > 0), where=clear) > 0.97
    assert (z[:, 0, 2] == z[:, 1, 2]).all()


def test_settings_are_recorded() -> None:
    for _, given in CASES:
        made = Views(3, **given)
        assert Views.from_dict(made.as_dict()) == made
        assert made.short_name != Views(2, **given).short_name
    assert Views(2, private=("x",)).as_dict() == {"number": 2, "private": ["x"]}
    assert Views(2, private=("hue",)).blocks(World(fixed={"ground_hue": 0, "x": 0}))["private"] == (
        "object_hue", "spotlight_hue"
    )  # fmt: skip
    assert "around view 0" in Views(2, private=("x",), cond="normal").words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"number": 1, "private": ("x",)}, "2 to 100 views"),
        ({"number": 2}, "same"),
        ({"number": 2, "private": "x"}, "list of names"),
        ({"number": 2, "private": ("hew",)}, "'hue'"),
        ({"number": 2, "private": BOX.names}, "nothing in common"),
        ({"number": 2, "private": ("x",), "sigma": 0.2}, "marginal"),
        ({"number": 2, "private": ("x",), "cond": "norml"}, "'normal'"),
        ({"number": 2, "private": ("x",), "cond": "normal", "sigma": 1e-9}, "sigma"),
        ({"number": 2, "cond": "normal", "cameras": ("a", "b")}, "private"),
        ({"number": 2, "cameras": ("a", "a")}, "same"),
        ({"number": 3, "cameras": ("a", "b")}, "3 views"),
    ],
)
def test_bad_input_is_one_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        views(BOX, **given)
    assert "\n" not in str(error.value)


def test_bad_worlds_are_one_sentence() -> None:
    with pytest.raises(UserError, match="'sphere'"):
        views(PERIODIC, private=("sphere_1",))
    with pytest.raises(UserError, match="held"):
        views(World(fixed={"hue": 0}), private=("hue",))
    with pytest.raises(UserError, match="class"):
        views(CAUSAL, private=("class",))
    with pytest.raises(UserError, match="nothing in common"):
        views(World("causal3dident", classes=("Hare",)), private=CAUSAL.names)
    with pytest.raises(UserError, match="one of the two"):
        draw_images(BOX, Sequences(2), (), Views(2, private=("x",)), seed=0, split="train", start=0, count=2)
    with pytest.raises(UserError, match="4 or 6"):
        Views(2, private=("x",)).check_number(5)
    with pytest.raises(UserError, match="privat"):
        Views.from_dict({"number": 2, "privat": ["x"]})
