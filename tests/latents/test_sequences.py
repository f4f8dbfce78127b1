"""Sequences: each frame is drawn from its conditional around the one before, and depends on its number alone."""

import hashlib
from typing import Any

import numpy as np
import pytest

from ident3d import Factor, Factors, Sequences, UserError, World
from ident3d.latents import draw, uniforms
from ident3d.latents.distributions.differences import expected_abs_difference
from ident3d.latents.distributions.spaces import goes_round
from ident3d.latents.sequence_draws import Frames, draw_images
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
    (BOX, {"sigma": 0.1}),
    (BOX, {"cond": "laplace", "sigma": 0.5}),
    (BOX, {"cond": "gennorm", "sigma": [0.1 * k for k in range(1, 11)], "only": ("hue", "x")}),
    (BOX, {"cond": "uniform", "sigma": 0.3}),
    (BOX, {"cond": "uniform", "sigma": None}),
    (World(fixed={"rotation": 0.5}), {"sigma": 2.0}),
    (PERIODIC, {"sigma": 0.2}),
    (PERIODIC, {"cond": "laplace,vmf", "kappa": 20.0}),
    (PERIODIC, {"cond": "uniform,rejected_normal", "precision": [1.0] * 3 + [30.0] * 4 + [90.0] * 4}),
    (Factors(OWN.factors[:2]), {"sigma": 0.4}),
    (Factors(OWN.factors[:2]), {"cond": "gennorm", "p": 1.5, "sigma": 0.3}),
]
EVERY_MACHINE = "370425b8eb949928f5f2ab8a7b92bce3676c829da8ab02924461ef70a42fb1e8"


def frames(world: AnyWorld, length: int = 2, *, count: int = 20_000, seed: int = 3, **given: Any) -> Frames:
    return draw_images(world, Sequences(length, **given), seed=seed, split="train", start=0, count=count)


def by_sequence(found: Frames, length: int) -> np.ndarray:
    return found.raw.astype(np.float64).reshape(-1, length, found.raw.shape[1])


@pytest.mark.parametrize("case", range(len(CASES)))
def test_steps_have_the_moments_of_the_conditional(case: int) -> None:
    """Against the samplers that pairs use, of other arithmetic and other random numbers, within 4 standard errors."""
    world, given = CASES[case]
    z = by_sequence(frames(world, 3, count=24_000, **given), 3)
    conditional = Sequences(3, **given).conditional(world)
    uniform = uniforms(np.random.default_rng(1))
    anchors, found = z[:, 1], z[:, 2]
    theirs = conditional.sample(anchors, uniform)
    for moment in (lambda x: x - anchors, lambda x: x, lambda x: x**2, lambda x: x[:, :1] * x):
        one, other = moment(found), moment(theirs)
        if goes_round(world.space).any():
            one, other = np.cos(np.pi * one), np.cos(np.pi * other)
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 4 * error + 1e-7).all()
    realised = np.abs(z[:, 1] - z[:, 0]).mean(axis=0)
    if not goes_round(world.space).any():
        np.testing.assert_allclose(realised, expected_abs_difference(conditional, z[:, 0]), rtol=0.05, atol=1e-6)


def test_the_first_frame_is_drawn_as_images_are() -> None:
    found = by_sequence(frames(BOX, 5, count=100), 5)
    plain = draw(BOX, seed=3, split="train", start=0, count=100).raw
    np.testing.assert_array_equal(found[:, 0], plain[::5])


@pytest.mark.parametrize(("world", "given"), [(BOX, {}), CASES[7], CASES[8], (CAUSAL, {}), (OWN, {"switch": 0.5})])
def test_any_cutting_gives_the_same_bytes(world: AnyWorld, given: dict[str, Any]) -> None:
    whole = frames(world, 7, count=70, **given)
    for start, stop in ((0, 1), (6, 8), (13, 57), (69, 70), (20, 20)):
        part = draw_images(world, Sequences(7, **given), seed=3, split="train", start=start, count=stop - start)
        assert part.raw.tobytes() == whole.raw[start:stop].tobytes()
        for name in ("sequence", "frame"):
            np.testing.assert_array_equal(part.columns[name], whole.columns[name][start:stop])
        if whole.classes is not None and part.classes is not None:
            np.testing.assert_array_equal(part.classes, whole.classes[start:stop])


def test_every_machine_gets_these_bytes() -> None:
    drawn = [frames(world, 3, count=300, **given).raw.astype("<f4").tobytes() for world, given in CASES]
    drawn.append(frames(CAUSAL, 3, count=300).raw.astype("<f4").tobytes())
    assert hashlib.sha256(b"".join(drawn)).hexdigest() == EVERY_MACHINE


def test_what_does_not_change_stays() -> None:
    z = by_sequence(frames(World(fixed={"y": 0.25}), 4, count=400, only=("position", "object_hue")), 4)
    moved = (z[:, 1:] != z[:, :-1]).all(axis=(0, 1))
    assert moved.tolist() == [name in ("x", "z", "object_hue") for name in BOX.names]
    assert (z[:, :, 1] == 0.25).all()


def test_a_class_stays_and_classes_take_turns() -> None:
    found = frames(CAUSAL, 3, count=63)
    assert found.classes is not None
    np.testing.assert_array_equal(found.classes.reshape(-1, 3), np.arange(21)[:, None].repeat(3, 1) % 7)
    ranged = World("causal3dident", do={"x": "uniform(-0.2, 0.1)", "y": 0.5})
    z = by_sequence(frames(ranged, 5, count=500, sigma=0.5), 5)
    assert -0.2 <= z[..., 0].min() < -0.15
    assert 0.05 < z[..., 0].max() <= np.float32(0.1)
    assert (z[..., 1] == 0.5).all()


def test_categories_switch_and_listed_values_are_kept() -> None:
    z = by_sequence(frames(OWN, 2, switch=0.3, sigma=0.4), 2)
    changed = z[:, 0, 2] != z[:, 1, 2]
    assert abs(changed.mean() - 0.3) <= 4 * np.sqrt(0.3 * 0.7 / len(changed))
    up = ((z[:, 1, 2] - z[:, 0, 2]) % 3)[changed] == 1  # one of the two others, alike
    assert abs(up.mean() - 0.5) <= 4 * np.sqrt(0.25 / len(up))
    assert set(z[..., 3].ravel()) == set(np.float32([-1, -1 / 3, 1 / 3, 1]).astype(float))
    assert (np.abs(z[..., 1]) <= 1).all()
    assert (z[..., 1] < 1).all()
    still = by_sequence(frames(OWN, 2, count=100, sigma=0.4), 2)
    assert (still[:, 0, 2] == still[:, 1, 2]).all()
    only = by_sequence(frames(OWN, 2, count=100, switch=1.0, only=("shape",)), 2)
    assert ((only[:, 0] != only[:, 1]) == [False, False, True, False]).all()


@pytest.mark.parametrize("case", range(len(CASES)))
def test_settings_are_recorded_and_read(case: int) -> None:
    sequences = Sequences(3, **CASES[case][1])
    assert Sequences.from_dict(sequences.as_dict()) == sequences
    assert len({Sequences(n, **given).short_name for n in (2, 3) for _, given in CASES}) == 2 * len(
        {str(Sequences(2, **given)) for _, given in CASES}
    )


@pytest.mark.parametrize(
    ("world", "given", "words"),
    [
        (BOX, {"length": 1}, "2 to 10,000"),
        (BOX, {"length": 2.0}, "2.0"),
        (BOX, {"cond": "vmf", "kappa": 3}, "sphere"),
        (BOX, {"cond": "nrmal"}, "normal"),
        (BOX, {"sigma": 1e-9}, "1e-09"),
        (BOX, {"sigma": [0.1, 0.2]}, "10 dimensions"),
        (BOX, {"sigma": "wide"}, "wide"),
        (BOX, {"cond": "gennorm", "p": 0.5}, "0.5"),
        (BOX, {"kappa": 3}, "kappa"),
        (BOX, {"only": ("rotatoin",)}, "rotation"),
        (BOX, {"switch": 0.5}, "categorical"),
        (OWN, {"switch": 1.5}, "1.5"),
        (OWN, {"only": ("shape",)}, "shape"),
        (PERIODIC, {"cond": "normal,rejected_normal", "precision": 1e-4}, "Λ"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(world: AnyWorld, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        frames(world, **{"length": 2, "count": 2} | given)
    assert words in str(caught.value)
