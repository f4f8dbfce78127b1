"""Declared factors: values to raw latents and back, what is refused, and the spaces that they make."""

import math

import numpy as np
import pytest

from ident3d import latents
from ident3d.errors import UserError
from ident3d.latents import Box, Circle, Factor, Factors, Product, World
from ident3d.latents.declare import declare
from ident3d.latents.distributions.differences import difference_cdf, expected_abs_difference
from ident3d.latents.exact.names import assignments
from ident3d.latents.worlds import read_world

SPRITES = Factors(
    (
        Factor("colour", values=(1.0,)),
        Factor("shape", "categorical", values=("square", "ellipse", "heart")),
        Factor("scale", values=(0.5, 0.6, 0.8, 1.0)),
        Factor("turn", "periodic", range=(0, 2 * math.pi), values=tuple(np.arange(8) * math.pi / 4), group="pose"),
        Factor("x", range=(-3, 3), group="pose"),
    ),
    classes=("cat", "dog"),
)


def test_values_come_back_from_raw_latents() -> None:
    rng = np.random.default_rng(0)
    rows = [SPRITES.factors[k].values for k in (2, 3)]
    scale, turn = (rng.choice(np.array(values, float), 100) for values in rows)
    values = np.column_stack([np.ones(100), rng.integers(0, 3, 100), scale, turn, rng.uniform(-3, 3, 100)])
    raw = SPRITES.to_raw(values)
    assert raw.dtype == np.float32
    assert (np.abs(raw) <= 1).all()
    assert not raw[:, 0].any()
    np.testing.assert_allclose(SPRITES.to_scene(raw), values, atol=1e-6)
    # a discrete value is the very one that was declared, and its number is its place in the list
    assert set(SPRITES.to_scene(raw)[:, 2].tolist()) == set(np.float32([0.5, 0.6, 0.8, 1.0]).tolist())
    discrete = Factors(SPRITES.factors[:4])
    index = discrete.indices(raw[:, :4])
    np.testing.assert_array_equal(index[:, 1], values[:, 1])
    np.testing.assert_array_equal(np.array(SPRITES.factors[3].values)[index[:, 3]], turn)


def test_a_periodic_factor_goes_round() -> None:
    turn = Factor("turn", "periodic", range=(-180, 180))
    assert turn.to_raw([-180, 180, 540, 0, 90]).tolist() == [-1, -1, -1, 0, 0.5]
    assert (turn.to_raw(np.nextafter([180.0, 540.0], 0)) < 1).all()


def test_the_space_is_made_of_boxes_and_circles() -> None:
    assert SPRITES.space == Product((Box(3), Circle(1), Box(1)))
    assert SPRITES.held == {"colour": 0.0}
    assert SPRITES.groups == {"pose": ("turn", "x")}
    assert SPRITES.categorical == (1,)
    assert Factors(SPRITES.factors[:2]).space == Box(2)


def test_a_declaration_is_recorded_and_read() -> None:
    assert Factors.from_dict(SPRITES.as_dict()) == read_world(SPRITES.as_dict()) == SPRITES
    world = World("3dident-periodic")
    assert read_world(world.as_dict()) == world
    for broken in ({"factors": 3, "classes": []}, {"factors": [{}], "classes": []}, {"factors": [{"name": "x"}]}, {}):
        with pytest.raises(UserError, match="recorded factor"):
            Factors.from_dict(broken)


@pytest.mark.parametrize("scene", ["3dident", "3dident-periodic", "causal3dident"])
def test_a_scene_declares_its_factors(scene: str) -> None:
    world = World(scene)
    factors = world.factors
    drawn = latents.draw(world, seed=0, split="train", start=0, count=500)
    values = world.to_scene(drawn.raw)
    assert factors.names == latents.NAMES
    for k, factor in enumerate(factors.factors):
        low, high = factor.bounds
        assert low - 1e-6 <= values[:, k].min() < values[:, k].max() <= high + 1e-6, factor
    if not world.periodic:  # where each raw number is a factor's
        np.testing.assert_allclose(factors.to_scene(drawn.raw), values, atol=1e-6)
    assert (factors.classes != ()) == world.causal


def test_factors_are_declared_from_a_table() -> None:
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.uniform(2, 5, 200), rng.integers(0, 4, 200), rng.uniform(-3, 3, 200)])
    found = declare(table, ["a", "b", "c"], {"b": "categorical", "c": "periodic"})
    a, b, c = found.factors
    assert (a.kind, a.bounds, a.values) == ("box", (table[:, 0].min(), table[:, 0].max()), ())
    assert (b.kind, b.values) == ("categorical", (0.0, 1.0, 2.0, 3.0))
    assert c.bounds == (-math.pi, math.pi)
    assert declare(table[:, 1:2]).factors[0] == Factor("z0", values=(0, 1, 2, 3))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Factor("x", "cube", range=(0, 1)), "cube"),
        (lambda: Factor("x"), "range"),
        (lambda: Factor("x", range=(1, 0)), "x"),
        (lambda: Factor("x", range=(0, math.inf)), "x"),
        (lambda: Factor("x", range=(0, math.nan)), "x"),
        (lambda: Factor("x", range=(-1.5e308, 1.5e308)), "x"),
        (lambda: Factor("x", "categorical", values=(1, math.nan)), "finite"),
        (lambda: Factor("x", values=(0, math.inf)), "finite"),
        (lambda: Factor("x", values=(1, 0)), "lowest"),
        (lambda: Factor("x", values=(1, 1)), "twice"),
        (lambda: Factor("x", values=("a", "b")), "categorical"),
        (lambda: Factor("x", "categorical"), "values"),
        (lambda: Factor("x", "categorical", values=("a", 1)), "names"),
        (lambda: Factor("x", "periodic", values=(0, 1)), "range"),
        (lambda: Factor("x", "periodic", range=(0, 1), values=(0, 1)), "turn"),
        (lambda: Factor("x", range=(0, 1), values=(0, 2)), "outside"),
        (lambda: Factor("", range=(0, 1)), "name"),
        (lambda: Factor("a,b", range=(0, 1)), "a,b"),
        (lambda: Factor("class", range=(0, 1)), "class"),
        (lambda: Factors((Factor("x", range=(0, 1)),) * 2), "'x'"),
        (lambda: Factors((Factor("x", range=(0, 1)), Factor("y", range=(0, 1), group="x"))), "'x'"),
        (lambda: Factors((), ("cat", "cat")), "cat"),
        (lambda: Factors(()).space, "no latents"),
        (lambda: Factors(SPRITES.factors[4:]).indices([[0.0]]), "x"),
        (lambda: SPRITES.to_raw([[1, 0]]), r"\(1, 2\)"),
        (lambda: SPRITES.to_raw([[1, 3, 1, 0, 0]]), "shape of image 0 is 3"),
        (lambda: SPRITES.to_raw([[1, 1, 0.55, 0, 0]]), "scale of image 0 is 0.55"),
        (lambda: SPRITES.to_raw([[1, 1, 1, 0, 0], [1, 1, 1, 0, 4]]), "x of image 1 is 4"),
        (lambda: SPRITES.to_raw([[1, 1, 1, math.nan, 0]]), "turn of image 0"),
        (lambda: declare(np.zeros((4, 2)), ["a"]), "2 columns"),
        (lambda: declare(np.zeros((4, 2)), ["a", "a"]), "'a'"),
        (lambda: declare(np.zeros((4, 2)), kinds=["box"]), "1 kinds"),
        (lambda: declare(np.zeros((4, 1)), kinds={"y": "box"}), "'y'"),
        (lambda: declare(np.zeros((4, 1)), kinds=["boxy"]), "boxy"),
        (lambda: declare(np.array([[0], [270.0]]), ["hue"], ["periodic"]), "hue .*270.* radians"),
    ],
)
def test_what_is_refused(make: object, named: str) -> None:
    with pytest.raises(UserError, match=named):
        make()  # type: ignore[operator]


def test_conditionals_on_a_circle_wrap() -> None:
    made = latents.conditional("normal", Circle(2), sigma=0.2, only=[0])
    uniform = latents.uniforms(np.random.default_rng(0))
    z = np.tile([0.99, 0.5], (40_000, 1))
    drawn = made.sample(z, uniform)
    assert ((drawn >= -1) & (drawn < 1)).all()
    assert (drawn[:, 1] == 0.5).all()
    # an anchor at the seam has positives on both sides of it, as far away as anywhere else
    apart = np.minimum(np.abs(drawn - z), 2 - np.abs(drawn - z))[:, 0]
    assert (drawn[:, 0] < 0).mean() == pytest.approx(0.48, abs=0.02)
    assert apart.mean() == pytest.approx(0.2 * math.sqrt(2 / math.pi), rel=0.02)
    assert expected_abs_difference(made, z)[0] == pytest.approx(apart.mean(), rel=0.02)
    assert difference_cdf(made, [0.2], z)[0, 0] == pytest.approx((apart <= 0.2).mean(), abs=0.02)
    free = latents.marginal("uniform", Circle(1)).sample(10_000, uniform)
    assert np.abs(free).mean() == pytest.approx(0.5, abs=0.02)


def test_a_name_that_is_a_number_is_a_name() -> None:
    digit = Factor("digit", "categorical", values=("0", "1", "2"))
    held = Factors((digit,), fixed=assignments(["digit=1"], own=True))
    (value,) = held.to_scene(np.array([[held.held["digit"]]]))[0].tolist()
    assert digit.shown(value) == "1"
    # folders keep raw numbers
    assert Factors((digit,), fixed=held.held).held == held.held == {"digit": 0.0}
    with pytest.raises(UserError, match=r"0, 1, 2, not '-1'"):
        digit.fixed_at("-1")
    assert Factor("height", range=(0, 1)).fixed_at("0.5") == 0.5
    assert Factor("shape", "categorical", values=("cube", "ball")).fixed_at("-1") == -1


@pytest.mark.parametrize("own", [{"name": "Lamp\n# "}, {"sha256": "0"}, {"name": 1}])
def test_a_folders_scene_has_the_name_of_a_class_and_a_digest(own: dict[str, str]) -> None:
    recorded = Factors((Factor("x", range=(0, 1)),)).as_dict()
    good = {"name": "Lamp", "sha256": "0" * 64}
    assert Factors.from_dict(recorded | {"own_scene": good}).title == "Lamp"
    with pytest.raises(UserError, match="wrong kind"):
        Factors.from_dict(recorded | {"own_scene": good | own})
