"""Worlds: raw → scene, ranges, fixed factors, what is refused, what the manifest keeps, what can be recovered."""

import colorsys
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from ident3d.errors import UserError
from ident3d.latents import NAMES, World, draw
from ident3d.latents.attainable import attainable_r2
from ident3d.latents.distributions.spaces import Box, Product, Sphere

HALF_PI = math.pi / 2


def test_box_scene_values() -> None:
    raw = np.linspace(-1, 1, 30, dtype=np.float32).reshape(3, 10)
    expected = raw.astype(np.float64) * np.array([3] * 3 + [HALF_PI] * 7)
    scene = World().to_scene(raw)
    assert scene.dtype == np.float32
    np.testing.assert_array_equal(scene, expected.astype(np.float32))
    narrow = World(position_range=1, angle_range=0.5, hue_range=math.pi).to_scene(raw)
    np.testing.assert_allclose(narrow, raw * np.array([1] * 3 + [0.5] * 4 + [math.pi] * 3), rtol=1e-6)


def test_periodic_scene_values() -> None:
    """The angles, halved but for the last, are spherical coordinates of the raw point."""
    world = World("3dident-periodic")
    raw = draw(world, seed=1, split="train", start=0, count=1000).raw
    scene = world.to_scene(raw).astype(np.float64)
    np.testing.assert_allclose(scene[:, :2], 3 * raw[:, :2], rtol=1e-6)
    np.testing.assert_allclose(scene[:, 2], 1.5 * (raw[:, 2].astype(np.float64) + 1), rtol=1e-6)
    assert scene[:, 3:].min() >= 0
    assert scene[:, 3:].max() <= 2 * np.pi
    assert (scene[:, 3:].max(axis=0) > 4).all()
    angles = scene[:, 3:] * ([0.5] * 6 + [1.0])
    sines = np.cumprod(np.concatenate([np.ones((1000, 1)), np.sin(angles)], axis=1), axis=1)
    point = sines * np.concatenate([np.cos(angles), np.ones((1000, 1))], axis=1)
    np.testing.assert_allclose(point, raw[:, 3:], atol=1e-6)


def test_defaults_and_names() -> None:
    world = World()
    assert (world.position_range, world.angle_range, world.hue_range, world.hues) == (3, HALF_PI, HALF_PI, "published")
    assert world.names == NAMES
    assert world.space == Box(10)
    periodic = World("3dident-periodic")
    assert periodic.space == Product((Box(3), Sphere(8)))
    assert periodic.n_raw == 11
    assert periodic.names[3] == "sphere_0"


@pytest.mark.parametrize(
    "world",
    [
        World(),
        World("3dident-periodic", fixed={"x": 0}),
        World(fixed={"hue": 0.25, "x": -1}, hues="wrapped", hue_range=1),
    ],
)
def test_manifest_round_trip(world: World) -> None:
    assert World.from_dict(json.loads(json.dumps(world.as_dict()))) == world
    assert pickle.loads(pickle.dumps(world)) == world


def test_groups_are_expanded_and_singles_win() -> None:
    assert World(fixed={"rotation_phi": 1, "rotation": 0}).fixed == {
        "rotation_phi": 1.0, "rotation_theta": 0.0, "rotation_psi": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"scene": "3didnt"}, "Did you mean '3dident'"),
        ({"hues": "wrap"}, "Did you mean 'wrapped'"),
        ({"position_range": 0}, "positive length"),
        ({"position_range": math.nan}, "positive length"),
        ({"position_range": [3]}, "position range .*number"),
        ({"angle_range": 4}, "up to π"),
        ({"hue_range": -1}, "up to π"),
        ({"fixed": {"rotation_ph": 0}}, "Did you mean 'rotation_phi'"),
        ({"fixed": {"x": 1.5}}, "from -1 to 1"),
        ({"fixed": {"x": math.nan}}, "from -1 to 1"),
        ({"scene": "3dident-periodic", "fixed": {"hue": 0}}, "jointly on a sphere"),
        ({"scene": "3dident-periodic", "angle_range": 1}, "takes no angle range"),
    ],
)
def test_bad_worlds(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        World(**settings)


@pytest.mark.parametrize(
    "damage",
    [
        {"position_range": "wide"},
        {"position_range": [1]},
        {"fixed": [1]},
        {"fixed": {"x": None}},
        {"scene": 3},
        {"scene": ["3dident"]},
        {"hues": 1},
        {"classes": 5},
        {"graph": 5},
        {"graph": {"classes": {"Cow": 1}}},
    ],
)
def test_damaged_manifests_end_with_a_sentence(damage: dict[str, Any]) -> None:
    for scene in ("3dident", "causal3dident"):
        with pytest.raises(UserError):
            World.from_dict({"scene": scene} | damage)


def test_unknown_setting_in_a_manifest() -> None:
    with pytest.raises(UserError, match="Did you mean 'hues'"):
        World.from_dict({"scene": "3dident", "hue": "published"})


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (np.zeros((3, 11)), "shape"),
        (np.zeros(10), "shape"),
        (np.full((2, 10), np.nan), "x of image 0 is nan"),
        (np.eye(10) * 2, "is 2"),
        (np.zeros((1, 10), complex), "real numbers"),
        (np.full((1, 10), "a"), "real numbers"),
    ],
)
def test_check_raw_refuses(raw: np.ndarray, says: str) -> None:
    with pytest.raises(UserError, match=says):
        World().check_raw(raw)


def test_check_raw_keeps_good_latents() -> None:
    for scene in ("3dident", "3dident-periodic"):
        raw = draw(World(scene), seed=0, split="train", start=0, count=9).raw
        np.testing.assert_array_equal(World(scene).check_raw(raw.astype(np.float64)), raw)
    with pytest.raises(UserError, match=r"length 1.* image 0"):
        World("3dident-periodic").check_raw(np.full((2, 11), 0.5))
    with pytest.raises(UserError, match="shape"):
        World().to_scene(np.zeros((2, 3)))


def test_published_attainable_r2() -> None:
    r2 = attainable_r2(World())
    assert [r2[name] for name in NAMES[:7]] == [1.0] * 7
    assert r2["object_hue"] == pytest.approx(1 - 1 / 27)
    assert r2["spotlight_hue"] == pytest.approx(1 - 1 / 64)
    assert r2["ground_hue"] == pytest.approx(0.999, abs=5e-4)
    assert np.mean([r2[name] for name in NAMES]) == pytest.approx(0.9946, abs=5e-5)
    assert set(attainable_r2(World(hues="wrapped", hue_range=math.pi)).values()) == {1.0}
    assert attainable_r2(World(fixed={"hue": 0}))["object_hue"] is None


@pytest.mark.parametrize("hue_range", [0.3, 1.0, HALF_PI, 2.2, 2.6, math.pi])
def test_hue_r2_against_colours_counted(hue_range: float) -> None:
    """Group a fine grid of raw hues by the colour that the published call gives: R² = 1 - within-group variance."""
    raw = (np.arange(20_000) + 0.5) / 10_000 - 1
    for name, saturation in (("object_hue", 1.0), ("spotlight_hue", 0.8), ("ground_hue", 0.6)):
        colours = [colorsys.hsv_to_rgb(h, saturation, 1.0) for h in raw * hue_range / (2 * math.pi)]
        _, group = np.unique(np.maximum(colours, 0).round(7), axis=0, return_inverse=True)
        group = group.ravel()
        mean = np.bincount(group, raw) / np.bincount(group)
        counted = 1 - ((raw - mean[group]) ** 2).mean() / raw.var()
        assert attainable_r2(World(hue_range=hue_range))[name] == pytest.approx(counted, abs=2e-4)


def _rotation(angles: np.ndarray) -> np.ndarray:
    """Euler XYZ: Rz(ψ) Ry(θ) Rx(φ), one matrix per row."""
    matrices = []
    for axis in (2, 1, 0):
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        m = np.zeros((len(angles), 3, 3))
        m[:, axis, axis] = 1
        m[:, i, i] = m[:, j, j] = np.cos(angles[:, axis])
        m[:, j, i] = np.sin(angles[:, axis])
        m[:, i, j] = -m[:, j, i]
        matrices.append(m)
    return matrices[0] @ matrices[1] @ matrices[2]


def test_euler_twins_are_one_pose() -> None:
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, (50, 3))
    twin = angles * [1, -1, 1] + np.pi
    np.testing.assert_allclose(_rotation(angles), _rotation(twin), atol=1e-12)


@pytest.mark.parametrize("angle_range", [1.0, HALF_PI, 2.0, 2.7, math.pi])
def test_euler_r2_by_monte_carlo(angle_range: float) -> None:
    a = np.random.default_rng(1).uniform(-angle_range, angle_range, (200_000, 3))
    twin = (a * [1, -1, 1] + 2 * np.pi) % (2 * np.pi) - np.pi
    exists = (np.abs(twin) <= angle_range).all(axis=1, keepdims=True)
    mean = np.where(exists, (a + twin) / 2, a)
    sampled = 1 - ((a - mean) ** 2).mean(axis=0) / a.var(axis=0)
    r2 = attainable_r2(World(angle_range=angle_range))
    np.testing.assert_allclose([r2[name] for name in NAMES[3:6]], sampled, atol=0.01)
    assert attainable_r2(World(angle_range=angle_range, fixed={"rotation_phi": 0.1}))["rotation_psi"] == 1.0


def test_sphere_r2_by_monte_carlo() -> None:
    """Average each point with its pose's twin, weighted by the density of the angles at both."""
    world = World("3dident-periodic")
    raw = draw(world, seed=0, split="train", start=0, count=200_000).raw[:, 3:].astype(np.float64)
    half = np.empty((len(raw), 3))
    for k in range(3):
        half[:, k] = np.arctan2(np.linalg.norm(raw[:, k + 1 :], axis=1), raw[:, k])
    twin_half = (half * [1, -1, 1] + np.pi / 2) % np.pi
    power = np.array([6, 5, 4])
    p, twin_p = (np.prod(np.sin(h) ** power, axis=1) for h in (half, twin_half))

    def radii(h: np.ndarray) -> np.ndarray:
        return np.cumprod(np.concatenate([np.ones((len(h), 1)), np.sin(h)], axis=1), axis=1)

    twin = np.concatenate(
        [radii(twin_half)[:, :3] * np.cos(twin_half), raw[:, 3:] * (radii(twin_half) / radii(half))[:, 3:]], axis=1
    )
    np.testing.assert_allclose(np.linalg.norm(twin, axis=1), 1, atol=1e-5)
    loss = ((twin_p / (p + twin_p))[:, None] * (raw - twin)) ** 2
    sampled = 1 - loss.mean(axis=0) * 8
    r2 = attainable_r2(world)
    np.testing.assert_allclose([r2[f"sphere_{k}"] for k in range(8)], sampled, atol=0.01)
    assert r2["x"] == 1.0
