"""Transitions of one's own: linear means, effects within a frame, interventions; as the model says, or one sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ident3d import Factor, Factors, Sequences, UserError, World
from ident3d.latents import Transition, load_transition
from ident3d.latents.sequence_draws import Frames, draw_images
from ident3d.latents.worlds import AnyWorld

OWN = """
factors = ["x", "y"]
matrix = [[0.6, -0.2], [0.2, 0.6]]
offset = [0.1, 0.0]

[x]
sigma = 0.05

[y]
sigma = 0.3
cond = "laplace"
intervened = 0.25

[z]
last = { z = 0.5 }
now = { x = 0.4, y = -0.3 }
sigma = 0.05
"""
FACTORS = Factors(
    (
        Factor("turn", "periodic", range=(0, 360)),
        Factor("shape", "categorical", values=("ball", "cube", "cone")),
        Factor("size", range=(1, 2)),
    )
)


def drawn(world: AnyWorld, tables: dict[str, Any] | Transition, length: int = 5, count: int = 20_000) -> Frames:
    own = tables if isinstance(tables, Transition) else Transition.from_dict(tables)
    sequences = Sequences(length, transition=own)
    return draw_images(world, sequences, seed=5, split="train", start=0, count=count)


def moments(mean: np.ndarray, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """E(x - mean) and E(x - mean)² of normals truncated to [-1, 1]."""
    a, b = (-1 - mean) / sd, (1 - mean) / sd
    mass, low, high = stats.norm.cdf(b) - stats.norm.cdf(a), stats.norm.pdf(a), stats.norm.pdf(b)
    return sd * (low - high) / mass, sd**2 * (1 + (a * low - b * high) / mass)


def within_4_errors(values: np.ndarray, expected: np.ndarray | float = 0.0) -> None:
    difference = values - expected
    assert abs(difference.mean()) <= 4 * difference.std() / np.sqrt(len(difference))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Transition:
    path = tmp_path_factory.mktemp("transition") / "own.toml"
    path.write_text(OWN)
    return load_transition(path)


def test_steps_have_the_moments_of_the_model(own: Transition) -> None:
    found = drawn(World(), own)
    z = found.raw.astype(np.float64).reshape(-1, 5, 10)
    last, now = z[:, :-1].reshape(-1, 10), z[:, 1:].reshape(-1, 10)
    hit = found.columns["targets"].reshape(-1, 5)[:, 1:].ravel() >> 1 & 1 == 1
    assert not found.columns["targets"].reshape(-1, 5)[:, 0].any()
    assert set(found.columns["targets"]) == {0, 2}
    within_4_errors(hit.astype(float), 0.25)

    x = 0.6 * last[:, 0] - 0.2 * last[:, 1] + 0.1
    first, second = moments(x, 0.05)
    within_4_errors(now[:, 0] - x, first)
    within_4_errors((now[:, 0] - x) ** 2, second)
    within_4_errors((now[:, 0] - x) * last[:, 1], first * last[:, 1])

    # the Laplace distribution function makes truncated draws uniform
    y = (0.2 * last[:, 0] + 0.6 * last[:, 1])[~hit]
    ends = [stats.laplace.cdf(end, y, 0.3) for end in (-1, 1)]
    u = (stats.laplace.cdf(now[~hit, 1], y, 0.3) - ends[0]) / (ends[1] - ends[0])
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(now[hit, 1], stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(now[hit, 1], last[hit, 1])[0, 1]) < 4 / np.sqrt(hit.sum())

    z_mean = 0.5 * last[:, 2] + 0.4 * now[:, 0] - 0.3 * now[:, 1]
    first, second = moments(z_mean, 0.05)
    within_4_errors(now[:, 2] - z_mean, first)
    within_4_errors((now[:, 2] - z_mean) ** 2, second)


def test_what_has_no_rule_follows_the_conditional(own: Transition) -> None:
    plain = draw_images(World(), Sequences(2), seed=5, split="train", start=0, count=400).raw
    ruled = draw_images(World(), Sequences(2, transition=own), seed=5, split="train", start=0, count=400).raw
    np.testing.assert_array_equal(plain[:, 3:], ruled[:, 3:])
    assert (plain[1::2, :3] != ruled[1::2, :3]).any(axis=0).all()


def test_circles_wrap_and_categories_switch() -> None:
    tables = {
        "turn": {"last": {"turn": 1}, "offset": 0.25, "sigma": 0.02},
        "shape": {"switch": 0.2, "intervened": 0.3},
        "size": {"last": {"size": 0.2}, "now": {"turn": 0.5}, "sigma": 0.05},
    }
    found = drawn(FACTORS, tables, length=9, count=18_000)
    z = found.raw.astype(np.float64).reshape(-1, 9, 3)
    ahead = (z[:, 1:, 0] - z[:, :-1, 0] + 1) % 2 - 1
    within_4_errors(ahead.ravel(), 0.25)
    assert z[..., 0].min() < -0.9
    assert (z[..., 0] < 1).all()
    hit = found.columns["targets"].reshape(-1, 9)[:, 1:] >> 1 & 1 == 1
    changed = z[:, 1:, 1] != z[:, :-1, 1]
    within_4_errors(changed[hit].astype(float), 2 / 3)
    within_4_errors(changed[~hit].astype(float), 0.2)
    within_4_errors((z[:, 1:, 2] - 0.2 * z[:, :-1, 2] - 0.5 * z[:, 1:, 0]).ravel(), 0)


def test_any_cutting_gives_the_same_bytes_and_the_record_is_read(own: Transition) -> None:
    sequences = Sequences(7, transition=own)
    again = Sequences.from_dict(sequences.as_dict())
    assert again.as_dict() == sequences.as_dict()
    whole = draw_images(World(), sequences, seed=5, split="test", start=0, count=70)
    part = draw_images(World(), again, seed=5, split="test", start=11, count=33)
    assert part.raw.tobytes() == whole.raw[11:44].tobytes()
    np.testing.assert_array_equal(part.columns["targets"], whole.columns["targets"][11:44])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a table for each factor"),
        ("x = 3", "x is a table"),
        ("[x]\nsigmma = 0.1", "sigmma"),
        ("[rotatoin_phi]\nsigma = 0.1", "rotation_phi"),
        ("[x]\nlast = { yy = 0.5 }", "yy"),
        ("[x]\nlast = { x = 9 }", "too far outside"),
        ("[x]\nlast = { x = 1, y = 1 }\ncond = 'uniform'", "uniform noise"),
        ("[x]\nnow = { y = 0.1 }\n[y]\nnow = { x = 0.1 }", "cycle"),
        ("[x]\nnow = { x = 0.1 }", "cycle"),
        ("[x]\nintervened = 2", "intervened"),
        ("[x]\nsigma = 0", "sigma of x"),
        ("[x]\nswitch = 0.5", "categorical"),
        ("[x]\noffset = true", "True"),
        ("[x]\ncond = 'vmf'", "vmf"),
        ("matrix = [[1]]", "factors"),
        ("factors = ['x', 'y']\nmatrix = [[1, 0]]", "2 rows of 2"),
        ("factors = ['x']\nmatrix = [[0.5]]\n[x]\nlast = { x = 1 }", "matrix gives the mean of x"),
        ("offset = [1]", "matrix"),
        ("[x", "TOML"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        draw_images(World(), Sequences(2, transition=tmp_path / "own.toml"), seed=0, split="train", start=0, count=2)
    assert words in str(caught.value)


@pytest.mark.parametrize("frame", ["last", "now"])
def test_a_category_is_no_number_of_a_mean(frame: str) -> None:
    rules = Transition.from_dict({"size": {frame: {"shape": 0.5}}})
    with pytest.raises(UserError, match="shape for a number, and it is categorical"):
        rules.check(FACTORS, None, "normal", 0.2)


@pytest.mark.parametrize(
    ("world", "given", "words"),
    [
        (World(fixed={"x": 0}), {}, "held fixed"),
        (World(), {"only": ("rotation",)}, "--only"),
        (World("3dident-periodic"), {}, "sphere"),
        (World(), {"cond": "uniform", "sigma": None}, "sigma"),
    ],
)
def test_rules_fit_the_world(world: AnyWorld, given: dict[str, Any], words: str) -> None:
    own = Transition.from_dict({"x": {"last": {"x": 0.5}}})
    with pytest.raises(UserError, match=words):
        draw_images(world, Sequences(2, transition=own, **given), seed=0, split="train", start=0, count=2)


@pytest.mark.parametrize(
    "tables",
    [
        {"x": {"last": {}, "offset": 0.3, "sigma": 0.05}},
        {"factors": ["x", "y"], "matrix": [[0, 0], [0.5, 0.5]]},
        {"shape": {"switch": 0}},
    ],
)
def test_a_record_is_the_rules_even_where_they_are_empty_or_zero(tables: dict[str, Any]) -> None:
    own = Transition.from_dict(tables)
    assert Transition.from_dict(own.as_dict()).rules == own.rules


def test_rules_are_checked_where_only_categories_change_too_and_the_power_of_a_single_rule() -> None:
    for rules, said in (({"nope": {"sigma": 0.1}}, "nope"), ({"size": {"sigma": 0.1}}, "--only")):
        sequences = Sequences(2, switch=0.5, only=["shape"], transition=Transition.from_dict(rules))
        with pytest.raises(UserError, match=said):
            draw_images(FACTORS, sequences, seed=0, split="train", start=0, count=4)
    for p in (0.0, 0.5, 1000.0):
        sequences = Sequences(2, p=p, transition=Transition.from_dict({"x": {"cond": "gennorm"}}))
        with pytest.raises(UserError, match="gennorm from 1 to 100"):
            draw_images(World(), sequences, seed=0, split="train", start=0, count=4)


@pytest.mark.parametrize("given", [{"only": 3}, {"p": None, "cond": "gennorm"}, {"switch": None}])
def test_settings_of_a_wrong_kind_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"only|numbers"):
        Sequences(2, **given)


def test_a_transition_about_nothing_is_refused(tmp_path: Path) -> None:
    # A folder could not record it.
    (tmp_path / "own.toml").write_text("factors = []\nmatrix = []\n")
    with pytest.raises(UserError, match="no factor"):
        load_transition(tmp_path / "own.toml")
