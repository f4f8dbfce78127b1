"""Trainings on pairs by the rules grid and time: recorded, resumed to the bit, refused in one sentence, reported."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import ident3d
from ident3d.bench.pairs import changed_cell, later_frame
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.datasets import pair_changes
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop import checkpoint
from ident3d.training.report.report import write_report

SIZES = (3, 4, 5)
CELLS = np.stack(np.unravel_index(np.arange(60), SIZES), axis=1)
BASE = TrainSettings(encoder="tiny:convolution", batch=16, steps=6, lr=1e-3, dtype="fp32", bound=3.0)
RULES = {"grid": {"grid": "uni"}, "time": {"max_lag": 4}}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of three factors, which is also three sequences of twenty frames."""
    folder = tmp_path_factory.mktemp("rules") / "set"
    images = np.zeros((60, 16, 16, 3), np.uint8)
    for image, (shape, x, y) in zip(images, CELLS, strict=True):
        image[3 * x : 3 * x + 4, 3 * y : 3 * y + 4, : shape + 1] = 255
    ident3d.from_arrays(
        images, CELLS, folder, names=["shape", "x", "y"], kinds=["categorical", "box", "box"],
        columns={"sequence": CELLS[:, 0], "frame": np.arange(60) % 20}, shard_size=16, show_progress=False,
    )  # fmt: skip
    return folder


def quick(path: Path, settings: TrainSettings, out: Path, **options: Any) -> Path:
    return train(path, settings, out=out, workers=0, show_progress=False, device="cpu", **options).path


def differing(one: Any, other: Any) -> Iterator[Any]:
    """Tensors of two states of the same form."""
    if isinstance(one, torch.Tensor):
        yield one, other
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            yield from differing(one[name], other[name])


@pytest.mark.parametrize("rule", RULES)
def test_a_run_by_a_rule_resumes_to_the_same_bits_and_says_what_it_was(path: Path, tmp_path: Path, rule: str) -> None:
    settings = replace(BASE, rule=rule, **RULES[rule])
    whole = quick(path, settings, tmp_path / "whole")
    quick(path, replace(settings, steps=4), tmp_path / "parts")
    parts = quick(path, settings, tmp_path / "parts", resume=True)
    ours, theirs = (checkpoint.load(run).part(checkpoint.MODEL) for run in (whole, parts))
    tensors = list(differing(ours, theirs))
    assert len(tensors) > 5
    assert all(torch.equal(a, b) for a, b in tensors)
    recorded = json.loads((whole / "run.json").read_text())["settings"]
    own = {"grid": {"grid": "uni", "rate": 1.0}, "time": {"max_lag": 4}}[rule]
    assert {k: v for k, v in recorded.items() if k in ("rule", "grid", "rate", "max_lag")} == {"rule": rule, **own}
    assert open_run(whole).settings.pair_kind == {"grid": "uni", "time": "time4"}[rule]
    other = replace(settings, **({"grid": "lap"} if rule == "grid" else {"max_lag": 3}))
    with pytest.raises(UserError, match=r"lap|max_lag"):
        quick(path, other, whole, resume=True)
    page = write_report(whole).read_text()
    assert f"by the rule {rule}" in page
    assert "mean |z̃ - z|" in page


def test_settings_without_a_rule_are_recorded_as_ever() -> None:
    recorded = BASE.as_dict()
    assert not {"rule", "grid", "rate", "max_lag"} & recorded.keys()
    assert TrainSettings(rule="grid", rate=None).as_dict()["rate"] is None


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("rule", RULES)
def test_the_loader_gives_the_same_pairs_and_goes_on_anywhere(path: Path, rule: str, workers: int) -> None:
    pairs = ident3d.PairDataset(path, seed=3, rule=rule, **RULES[rule])
    loader = make_loader(pairs, 8, workers=workers)
    batches, states = [], []
    for batch in loader:
        batches.append([x.clone() for x in batch[1]])
        states.append(loader.state_dict())
    again = make_loader(ident3d.PairDataset(path, seed=3, rule=rule, **RULES[rule]), 8, workers=0)
    again.load_state_dict(states[2])
    for (_, x), kept in zip(again, batches[3:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(x, kept, strict=True))
    with pytest.raises(UserError, match="pairs made with other settings"):
        make_loader(ident3d.PairDataset(path, seed=3), 8, workers=0).load_state_dict(states[2])


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("--rule", "grip"), "Did you mean 'grid'"),
        (("--grid", "uni"), "--grid"),
        (("--rule", "nearest", "--max-lag", "2"), "--max-lag"),
        (("--rule", "grid", "--sigma", "0.3"), "--sigma"),
        (("--rule", "time", "--cond", "augment"), "--cond"),
        (("--rule", "grid", "--grid", "lab"), "'lap'"),
        (("--rule", "grid", "--rate", "-1"), "-1"),
        (("--rule", "time", "--max-lag", "0"), "not 0"),
        (("--rule", "time", "--max-lag", "20"), "20"),
        (("--rule", "grid", "--supervised"), "--supervised"),
    ],
)
def test_mistakes_get_one_sentence(path: Path, tmp_path: Path, words: tuple[str, ...], fact: str) -> None:
    given = ["train", str(path), "--batch", "8", "--steps", "1", "--encoder", "conv", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(main, [*given, "--device", "cpu", "--workers", "0", *words])
    assert done.exit_code == 2
    assert fact in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run" / "run.json").exists()


def test_the_plain_loop_of_the_benchmark_draws_the_same_pairs(path: Path) -> None:
    """Otherwise the benchmark would compare two things."""
    for rule, settings in (("grid", {"grid": "uni"}), ("grid", {}), ("time", {"max_lag": 4})):
        pairs = ident3d.PairDataset(path, rule=rule, **settings)
        choose = later_frame if rule == "time" else changed_cell
        rng = np.random.default_rng(0)
        plain = np.array([choose(pairs.sampler, rng) for _ in range(3000)])  # type: ignore[operator]
        ours = pairs.sampler.pairs(np.arange(3000))
        for k in range(3):
            steps = [np.abs(CELLS[a, k] - CELLS[b, k]) for a, b in (plain.T, (ours.anchor, ours.positive))]
            assert steps[0].mean() == pytest.approx(steps[1].mean(), abs=0.12)
            assert (steps[0] > 0).mean() == pytest.approx((steps[1] > 0).mean(), abs=0.05)


def test_a_run_is_scored_by_a_protocol_on_what_it_was_trained_on(path: Path, tmp_path: Path) -> None:
    run = quick(path, replace(BASE, rule="grid", steps=1), tmp_path / "run")
    words = ["--fraction", "0.01", "--metrics", "beta_vae,factor_vae,mcc", "--encoder", "tiny:convolution"]
    done = CliRunner().invoke(
        main, ["evaluate", str(run), "--protocol", "slowvae", *words, "--device", "cpu", "--json"]
    )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert json.loads((run / "protocol-slowvae.json").read_text()) == found
    assert (found["data"], found["step"], found["settings"]["images"]) == (str(path), 1, 60)
    # the last frame of each of the three sequences is no first frame
    assert found["settings"]["rows"] == 57
    assert all(0 <= found["scores"][name]["score"] <= 1 for name in ("beta_vae", "factor_vae", "mcc"))
    wrong = CliRunner().invoke(main, ["evaluate", str(run), "--protocol", "slowvea"])
    assert wrong.exit_code == 2
    assert "slowvae" in wrong.stderr
    plain = CliRunner().invoke(main, ["evaluate", str(run), "--root", str(tmp_path), "--encoder", "tiny:convolution"])
    assert plain.exit_code == 2
    assert "--protocol slowvae" in plain.stderr
    own = [["--n", "9"], ["--bn-batch-stats"], ["--allow-same"], ["--root", str(tmp_path)]]
    for given, fact in [
        *((["--protocol", "slowvae", *each], each[0]) for each in own),
        (["--fraction", "0.5"], "--fraction"),
    ]:
        done = CliRunner().invoke(
            main, ["evaluate", str(run), *given, "--encoder", "tiny:convolution", "--device", "cpu"]
        )
        assert done.exit_code == 2, given
        assert fact in done.stderr.splitlines()[-1]


def test_pairs_shows_what_a_rule_does(path: Path, tmp_path: Path) -> None:
    picture = tmp_path / "pairs.png"
    for words, factor in ((("--rule", "grid", "--grid", "uni"), "shape"), (("--rule", "time", "--max-lag", "4"), "x")):
        given = ["pairs", str(path), *words, "--pairs", "3000", "--out", str(picture)]
        done = CliRunner().invoke(main, [*given, "--json"])
        assert done.exit_code == 0, done.stderr
        found = json.loads(done.stdout)
        assert sum(found["changed_factors"]) == pytest.approx(1)
        assert {row["factor"]: row for row in found["factors"]}[factor]["changed"] > 0.2
        assert picture.stat().st_size > 10_000
        picture.unlink()
    # 60 frames in 3 sequences: of 57 anchors, 3 have a single later frame, so lag 1 is 1/4 + 3/4 · 3/57 of all
    assert found["lags"][0] == pytest.approx(1 / 4 + 3 / 4 * 3 / 57, abs=0.03)
    assert found["changed_factors"][0] == 0
    assert {row["factor"]: row for row in found["factors"]}["shape"]["changed"] == 0
    uni = ident3d.pair_changes(ident3d.PairDataset(path, rule="grid", grid="uni"), 3000)
    assert uni.counts[1] == pytest.approx(0.5, abs=0.04)
    assert uni.counts[0] == uni.counts[3] == 0
    z = CELLS  # mean steps among the other values of a list, in half of all pairs
    mean = [np.abs(np.subtract.outer(*[np.unique(z[:, k])] * 2)).sum() / (n * (n - 1)) for k, n in enumerate(SIZES)]
    np.testing.assert_allclose(uni.steps, np.array(mean) / 2, rtol=0.1)


def test_no_axis_of_numbers_of_frames_or_factors_is_marked_between_two(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(pair_changes, "write_figure", lambda path, figure: drawn.append(figure))
    pairs = ident3d.PairDataset(path, rule="time", max_lag=3)
    pair_changes.plot_changes(pairs, ident3d.pair_changes(pairs, 100), tmp_path / "pairs.png", "three")
    drawn[0].draw_without_rendering()
    counts, lags = drawn[0].axes[-2:]
    for panel in (counts, lags):
        assert all(mark == int(mark) for mark in panel.get_xticks())
    assert {1, 2, 3} <= set(lags.get_xticks())
