"""Pairs of rendered sequences: as wide as asked, and the table says so."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import make_dataset

from ident3d import Environment, Factor, Factors, PairDataset, Sequences, TimeSampler, World, pair_changes
from ident3d.cli import main
from ident3d.latents import Transition
from ident3d.latents.distributions.differences import expected_abs_difference
from ident3d.latents.distributions.spaces import distance
from ident3d.latents.sequence_draws import draw_images
from ident3d.latents.step_widths import asked_widths
from ident3d.latents.worlds import AnyWorld

OWN = Factors((Factor("a", range=(0, 1)), Factor("kind", "categorical", values=("u", "v", "w"))))
RULES = Transition.from_dict({"x": {"last": {"x": 0.5}}, "y": {"intervened": 0.5}})


@pytest.mark.parametrize(
    ("world", "given"),
    [
        (World(), {"sigma": 0.1}),
        (World(), {"cond": "laplace", "sigma": 0.2}),
        (World("3dident-periodic"), {"cond": "normal,vmf", "kappa": 20.0}),
        (World(), {"transition": RULES}),
        (OWN, {"switch": 0.4}),
    ],
)
def test_pairs_are_as_wide_as_asked(world: AnyWorld, given: dict[str, Any]) -> None:
    sequences = Sequences(2, **given)
    found = draw_images(world, sequences, seed=1, split="train", start=0, count=80_000)
    sampler = TimeSampler(found.raw, found.columns["sequence"], found.columns["frame"])
    pairs = sampler.pairs(np.arange(80_000))
    z, z_tilde = (found.raw[index].astype(np.float64) for index in (pairs.anchor, pairs.positive))
    realised, anchors = distance(world.space, z_tilde, z).mean(axis=0), found.raw[::2].astype(np.float64)
    asked = asked_widths(world, sequences, anchors)
    np.testing.assert_allclose(realised, asked, rtol=0.02)
    if set(given) <= {"sigma", "cond"}:
        np.testing.assert_allclose(realised, expected_abs_difference(sequences.conditional(world)), rtol=0.02)


def test_the_table_has_both(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "data", 600, size=4, shard_size=256, sequence=Sequences(3, sigma=0.3))
    found = pair_changes(PairDataset(folder, rule="time"), 2000)
    assert "asked" in found.table()
    assert (np.abs(np.subtract(found.widths, found.asked)) < 4.5 * np.array(found.errors)).all()
    # As much as the mean of so many draws of 400 pairs differs from that of others, if each pair's width is drawn anew.
    sampler = PairDataset(folder, rule="time").sampler
    drawn = sampler.pairs(np.arange(2000))
    pair = np.unique(np.minimum(drawn.anchor, drawn.positive), return_inverse=True)[1]
    apart = np.abs(sampler.latents[drawn.anchor] - sampler.latents[drawn.positive]).std(axis=0)
    means = np.random.default_rng(0).standard_normal((4000, 400))[:, pair].mean(axis=1)
    np.testing.assert_allclose(found.errors, apart * means.std(), rtol=0.05)
    assert pair_changes(PairDataset(folder, rule="time", max_lag=2), 100).asked == ()
    both = [folder, make_dataset(tmp_path / "other", 20, size=4, sequence=Sequences(2))]
    assert pair_changes(PairDataset(both, rule="time"), 100).asked == ()
    # In an environment that holds x, x never changes, and the folder asks for no single width.
    two = (Environment("plain"), Environment("held", {"x": 0.5}))
    held = make_dataset(tmp_path / "held", 24, size=4, sequence=Sequences(2), environments=two)
    assert pair_changes(PairDataset(held, rule="time"), 100).asked == ()
    words = ["pairs", str(folder), "--rule", "time", "--pairs", "100", "--out", str(tmp_path / "p.png"), "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(json.loads(result.stdout)["asked_widths"]["x"], found.asked[0])
