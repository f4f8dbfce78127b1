"""Environments: each has the moments of its model, images take them in turn, and what is wrong is one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ident3d import Environment, Factor, Factors, Sequences, UserError, World, load_environments
from ident3d.latents import draw
from ident3d.latents.environments import read_environments, recorded_environments
from ident3d.latents.sequence_draws import Frames, draw_images
from ident3d.latents.transition import Transition
from ident3d.latents.worlds import AnyWorld

OWN = Factors(
    (
        Factor("turn", "periodic", range=(0, 360)),
        Factor("shape", "categorical", values=("ball", "cube", "cone")),
        Factor("size", range=(1, 2), group="look"),
        Factor("level", values=(1, 2, 3, 4, 5), group="look"),
    )
)
N = 30_000


def drawn(world: AnyWorld, *texts: str, sequences: Sequences | None = None, count: int = N) -> Frames:
    return draw_images(world, sequences, read_environments(texts), seed=2, split="train", start=0, count=count)


def part(found: Frames, environment: int) -> np.ndarray:
    return found.raw[found.columns["environment"] == environment].astype(np.float64)


def within_4_errors(values: np.ndarray, law: "stats.rv_continuous") -> None:
    for power in (1, 2):
        error = (values**power).std() / np.sqrt(len(values))
        assert abs((values**power).mean() - law.moment(power)) <= 4 * error


def truncated(mean: float, sd: float) -> "stats.rv_continuous":
    return stats.truncnorm((-1 - mean) / sd, (1 - mean) / sd, mean, sd)


def test_factors_have_the_moments_of_each_environment() -> None:
    found = drawn(World(), "plain:", "soft:x~normal(0.7, 0.4);y~uniform(-1, -0.5)", "hard:position=0.25; z=-1")
    plain, soft, hard = (part(found, e) for e in range(3))
    uniform = stats.uniform(-1, 2)
    for k in range(10):
        within_4_errors(plain[:, k], uniform)
    within_4_errors(soft[:, 0], truncated(0.7, 0.4))
    within_4_errors(soft[:, 1], stats.uniform(-1, 0.5))
    for k in range(2, 10):
        within_4_errors(soft[:, k], uniform)
        within_4_errors(hard[:, k], uniform) if k > 2 else None
    assert (hard[:, :3] == [0.25, 0.25, -1]).all()
    # what no environment changes is as it is without any
    np.testing.assert_array_equal(found.raw[:, 3:], draw(World(), seed=2, split="train", start=0, count=N).raw[:, 3:])


def test_a_graph_keeps_its_mechanisms_but_for_what_is_intervened_on() -> None:
    world = World("causal3dident", do={"z": 0.0})
    found = drawn(world, "plain:", "hare:class=Hare; spotlight_position=0.5", "wide:y~normal(0.5 * x, 0.8)", count=8400)
    assert found.classes is not None
    kinds = [found.classes[found.columns["environment"] == e] for e in range(3)]
    assert np.bincount(kinds[0], minlength=7).tolist() == [400] * 7
    assert set(kinds[1]) == {1}
    assert (found.raw[:, 2] == 0).all()
    assert (part(found, 1)[:, 6] == 0.5).all()
    wide = part(found, 2)
    u = stats.norm.cdf(wide[:, 1], 0.5 * wide[:, 0], 0.8)
    low, high = (stats.norm.cdf(end, 0.5 * wide[:, 0], 0.8) for end in (-1, 1))
    assert stats.kstest((u - low) / (high - low), "uniform").pvalue > 1e-3


def test_declared_factors_of_all_kinds() -> None:
    found = drawn(OWN, "plain:", "one:turn~normal(0.9, 0.2); shape=cube; level~laplace(0, 0.2)", "two:look=-1")
    one, two = part(found, 1), part(found, 2)
    away = (one[:, 0] - 0.9 + 1) % 2 - 1
    within_4_errors(away, stats.norm(0, 0.2))
    assert (one[:, 0] < 1).all()
    assert (one[:, 1] == 0).all()
    assert set(one[:, 3]) == {-1, -0.5, 0, 0.5, 1}
    assert (one[:, 3] == 0).mean() > 0.5
    assert (two[:, 2:] == -1).all()


def test_sequences_lie_within_environments() -> None:
    whole = drawn(World(), "a:", "b:x=0.5;y~normal(0, 0.1)", sequences=Sequences(3, sigma=0.2), count=90)
    environment = whole.columns["environment"].reshape(-1, 3)
    np.testing.assert_array_equal(environment, np.arange(30)[:, None].repeat(3, 1) % 2)
    assert (part(whole, 1)[:, 0] == 0.5).all()
    texts = ["a:", "b:x=0.5;y~normal(0, 0.1)"]
    environments = recorded_environments([each.as_dict() for each in read_environments(texts)])
    some = draw_images(World(), Sequences(3, sigma=0.2), environments, seed=2, split="train", start=7, count=40)
    assert some.raw.tobytes() == whole.raw[7:47].tobytes()
    np.testing.assert_array_equal(some.columns["environment"], whole.columns["environment"][7:47])


def test_what_an_environment_sets_has_no_transition_in_it() -> None:
    rules = {"x": {"last": {"x": 0.5}, "sigma": 0.1}, "y": {"last": {}, "now": {"x": 0.8}, "sigma": 0.01}}
    moving = Sequences(4, sigma=0.2, transition=Transition.from_dict(rules))
    found = drawn(World(), "a:", "b:x=0.5", sequences=moving, count=4_000)
    x, y = part(found, 1)[:, :2].reshape(-1, 4, 10)[:, 1:, :2].reshape(-1, 2).T
    assert (x == 0.5).all()
    # y still follows x: its mean is 0.8 x.
    assert abs(y.mean() - 0.4) < 4 * 0.01 / np.sqrt(len(y))
    free = part(found, 0)[:, :2]
    assert free[:, 0].std() > 0.1
    alone = drawn(World(), sequences=moving, count=8)
    np.testing.assert_array_equal(found.raw[:4], alone.raw[:4])
    with pytest.raises(UserError, match="x is held fixed"):
        drawn(World(fixed={"x": 0.1}), "a:", "b:y=0.5", sequences=moving, count=8)


def test_a_file_and_options_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[plain]\n[right]\ny = 0.5\nz = "normal(0.2, 0.3)"\n')
    options = read_environments(["plain:", "right: y = 0.5", "right: z ~ normal(0.2, 0.3)"])
    assert [each.words for each in options] == [each.words for each in load_environments(file)]
    assert read_environments([str(file)]) == load_environments(file)


def bad(*texts: str, world: AnyWorld = World()) -> Callable[[], object]:  # noqa: B008
    return lambda: drawn(world, "plain:", *texts, count=2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: drawn(World(), "plain:", count=2), "2 to 1000"),
        (lambda: draw_images(World(), None, (Environment("a"),) * 2, seed=0, split="train", start=0, count=1), "'a'"),
        (bad("b:xx=1"), "xx"),
        (bad("b:x=2"), "-1 to 1"),
        (bad("b:x"), "NAME=VALUE"),
        (bad("b"), "no environment"),
        (bad("b:x=1;x=0"), "two values"),
        (bad("b:x~gamma(1, 2)"), "normal"),
        (bad("b:x~normal(y, 0.1)"), "depend on y, and this scene has no causal graph."),
        (
            bad("b:size~normal(0.5 * turn, 0.1)", world=OWN),
            "depend on turn, and this scene has no causal graph: give --graph",
        ),
        (bad("b:x~normal(9, 0.1)"), "30 sd"),
        (bad("b:class=Hare"), "class"),
        (bad("b:rotation=0", world=World("3dident-periodic")), "sphere"),
        (bad("b:sphere_1~normal(0, 0.1)", world=World("3dident-periodic")), "sphere"),
        (bad("b:shape~normal(0, 1)", world=OWN), "categorical"),
        (bad("b:shape=tube", world=OWN), "ball, cube, cone"),
        (bad("no.toml"), "no.toml"),
        (bad("b,c:x=0"), "environment"),
        (lambda: recorded_environments([{"name": "a"}]), "recorded"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(make: Callable[[], object], words: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert words in str(caught.value)


def test_an_option_and_a_file_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[a]\ny = 0.5\nx = "normal(0, 0.1)"\n[b]\n')
    world = World()
    options = read_environments(["a: y=0.50; x~normal(0, 0.1)", "b:"], world)
    assert options == read_environments([str(tmp_path / "own.toml")], world)
    assert json.dumps([each.as_dict() for each in options]) == json.dumps(
        [each.as_dict() for each in load_environments(tmp_path / "own.toml")]
    )
    # A text that may be a name stays one.
    digits = Factors((Factor("digit", "categorical", values=("0", "1")), Factor("x", range=(0, 1))))
    (one,) = read_environments(["a: digit=1; x=1"], digits)
    assert one.do == {"digit": "1", "x": 1.0}
