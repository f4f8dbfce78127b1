"""Where a box starts: the best width of the true latents on realised pairs, and what a run on a plateau is told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from synthetic import make_dataset

from ident3d import Factor, PairDataset, from_arrays
from ident3d.cli import main
from ident3d.losses import delta_contrastive
from ident3d.training.images.best_box import PAIRS, SHARE, BestBox, best_box
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.plateau import WIDEN, advice, plateau
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop import checkpoint
from ident3d.training.loop.log_file import read_log

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> PairDataset:
    return PairDataset(make_dataset(tmp_path_factory.mktemp("box") / "set", 400, size=8), sigma=0.3)


def complete(pairs: PairDataset, **given: Any) -> TrainSettings:
    return with_defaults(TrainSettings(**{"batch": 128, "sigma": 0.3, **given}), pairs.source.world, 8, 400)


@pytest.mark.parametrize("negatives", ["others", "batch"])
def test_the_best_box_has_the_least_loss_of_all_widths(pairs: PairDataset, negatives: str) -> None:
    found = best_box(complete(pairs, negatives=negatives), pairs)
    assert found is not None
    drawn = pairs.sampler.pairs(np.arange(PAIRS))
    z, positives = (torch.from_numpy(pairs.sampler.latents[index]) for index in (drawn.anchor, drawn.positive))
    row = 0 if negatives == "others" else None

    def loss(width: float) -> float:
        batches = zip((width / 2 * z).split(128), (width / 2 * positives).split(128), strict=True)
        return float(np.mean([delta_contrastive(a, b, first_row=row).mean() for a, b in batches]))

    assert found.loss == pytest.approx(loss(found.width), abs=1e-3)
    assert found.loss <= min(map(loss, np.linspace(0.5, 12, 47))) + 1e-3
    assert found.pair_width == pytest.approx(float((z - positives).abs().mean()), abs=1e-3)


def test_an_anchor_among_its_own_negatives_narrows_the_best_box(pairs: PairDataset) -> None:
    with_itself, without = (best_box(complete(pairs, negatives=name), pairs) for name in ("batch", "others"))
    assert with_itself is not None
    assert without is not None
    assert with_itself.width < 0.8 * without.width
    for box in (with_itself, without):
        assert box.start == pytest.approx(SHARE * box.width, abs=0.01)


@pytest.mark.parametrize("given", [{"loss": "au"}, {"loss": "aninfonce"}, {"space": "unbounded", "model_p": 1.0}])
def test_other_losses_with_differences_have_a_best_box(pairs: PairDataset, given: dict[str, Any]) -> None:
    found = best_box(complete(pairs, **given), pairs)
    assert found is not None
    assert 0.2 < found.width < 50


def test_a_sphere_and_a_users_own_loss_have_none(pairs: PairDataset) -> None:
    assert best_box(complete(pairs, space="sphere"), pairs) is None
    own = complete(pairs, loss="tiny:loss")
    assert best_box(own, pairs) is None
    assert (own.bound, own.space_lr, own.negatives) == (1.0, None, "batch")


def test_a_resumed_run_keeps_its_start_and_its_rate(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 64)
    settings = TrainSettings(encoder="tiny:convolution", batch=16, steps=4, lr=1e-3, dtype="fp32")
    options: dict[str, Any] = {"workers": 0, "show_progress": False, "device": "cpu"}
    whole = train(path, settings, out=tmp_path / "whole", **options)
    train(path, replace(settings, steps=2), out=tmp_path / "part", **options)
    again = train(path, settings, out=tmp_path / "part", resume=True, **options)
    assert open_run(again.path).facts["bound"] == whole.facts["bound"]
    assert again.settings.space_lr == 20 * settings.lr
    ours, theirs = (checkpoint.load(run.path).part(checkpoint.MODEL)["space.bound"] for run in (again, whole))
    assert torch.equal(ours, theirs)
    # Four steps of Adam move it by no more than its rate each.
    assert (ours - whole.facts["bound"]).abs().max() <= 4 * 20 * settings.lr + 1e-5


BEST = BestBox(width=5.0, loss=1.2, pair_width=0.2, start=3.5)
S = TrainSettings(space="box", steps=3_000)


def log_of(*r2: float, loss: float = 1.6, every: int = 20, lr: float = S.lr) -> list[dict[str, Any]]:
    """The last lines of a log that ends with step 2,000."""
    first = 2_000 - every * (len(r2) - 1)
    return [{"step": first + every * k, "r2": value, "loss": loss, "lr": lr} for k, value in enumerate(r2)]


@pytest.mark.parametrize("every", [20, 100])
def test_a_plateau_is_flat_above_the_least_loss(every: int) -> None:
    flat, rising = [0.83] * 31, [0.6 + 5e-5 * every * k for k in range(31)]
    found = plateau(log_of(*flat, every=every), BEST, S)
    assert found is not None
    assert (found.step, found.r2, found.loss) == (2_000, pytest.approx(0.83), pytest.approx(1.6))
    # A steady rise of .02 in 400 steps is none, nor is an early rest, a low loss, a good R² or too short a log.
    assert plateau(log_of(*rising, every=every), BEST, S) is None
    assert plateau([line | {"step": line["step"] - 900} for line in log_of(*flat, every=every)], BEST, S) is None
    assert plateau(log_of(*flat, loss=1.22), BEST, S) is None
    # With an anchor among its own negatives a low loss says nothing. au records the same, and has no such choice.
    assert plateau(log_of(*flat, loss=1.1), BEST, replace(S, loss="delta", negatives="batch")) is not None
    assert plateau(log_of(*flat, loss=1.1), BEST, replace(S, loss="au", negatives="batch")) is None
    assert plateau(log_of(*[0.97] * 31), BEST, S) is None
    assert plateau(log_of(*flat[:7]), BEST, S) is None
    assert plateau(log_of(*rising, *flat), BEST, S) is not None


def test_where_no_plateau_can_be_told() -> None:
    flat = log_of(*[0.83] * 31)
    # A rate that falls to nothing ends every rise; fewer codes than latents never have the loss of the best box.
    assert plateau(log_of(*[0.83] * 31, lr=S.lr / 20), BEST, S) is None
    by_latent = [line | {"r2_by_latent": [0.9] * 10} for line in flat]
    assert plateau(by_latent, BEST, replace(S, dim=3)) is None
    assert plateau(by_latent, BEST, replace(S, dim=10)) is not None
    # Lines that lack what is compared are left out.
    assert plateau([line | {"loss": None} for line in flat], BEST, S) is None
    assert plateau([{"step": 1}, *flat], BEST, S) is not None


@pytest.mark.parametrize(
    ("table", "row", "rests"),
    [
        ("encoders", "conv-32", False),
        ("encoders", "conv-64", False),
        ("encoders", "resnet18-32", True),
        ("box-start", "1-256", True),
        ("box-start", "12-128", False),
        # With an anchor among its own negatives both end below the loss of the best box.
        ("box-start", "auto-256-own", False),
        ("box-start", "4.44-256-own", True),
    ],
)
def test_runs_that_left_their_plateau_are_told_of_none(table: str, row: str, rests: bool) -> None:
    """The logs of results/: those that left it end at an R² of .87 and more, the others stay at .83."""
    folder = RESULTS / table
    results = json.loads((folder / "table.json").read_text())["results"]
    kept = {each["row"]: each["facts"] for each in results if each["seed"] == 0}
    best = BestBox.from_dict(kept[row]["best_box"])
    settings = TrainSettings.from_dict(kept[row]["settings"])
    lines = read_log(folder / "images" / f"{row}-seed0")
    assert best is not None
    assert any(plateau(lines[:k], best, settings) for k in range(len(lines) + 1)) == rests


def test_advice_names_what_the_run_could_change() -> None:
    found = plateau(log_of(*[0.83] * 31), BEST, S)
    assert found is not None
    said = advice(found, BEST, replace(S, bound=2.0))
    faster = f"--space-lr {20 * S.lr:g}"
    for fact in ("step 2,000", "0.83", "1.60", "1.20", f"--bound {BEST.start:g}", faster, "resnet18+flat"):
        assert fact in said
    assert f"--bound {WIDEN * BEST.start:.3g}" in advice(found, BEST, S)
    assert f"--bound {BEST.width:g}" in advice(found, BEST, replace(S, bound=4.5))
    for box_is_not_amiss in (replace(S, space="unbounded"), replace(S, bound=12.0), replace(S, learnable=False)):
        assert "--bound" not in advice(found, BEST, box_is_not_amiss)
    assert "--bound" not in advice(found._replace(bound=BEST.width), BEST, S)
    assert "+flat" not in advice(found, BEST, replace(S, encoder="conv"))
    assert "--space-lr" not in advice(found, BEST, replace(S, space_lr=20 * S.lr))
    assert "--batch" not in said
    assert "--batch 512" in advice(found, BEST, replace(S, batch=128))
    # A loss that is reached already is not named as possible.
    assert "possible" in said
    assert "possible" not in advice(found._replace(loss=1.1), BEST, S)


def test_a_positive_behind_the_end_of_a_circle_is_near(pairs: PairDataset, tmp_path: Path) -> None:
    latents = np.random.default_rng(0).uniform(-np.pi, np.pi, (400, 3))
    found = {}
    for kind in ("box", "periodic"):
        around = (-np.pi, np.pi)
        factors = [Factor("a", kind, range=around), Factor("b", range=around), Factor("c", range=around)]
        from_arrays(np.zeros((400, 8, 8, 3), np.uint8), latents, tmp_path / kind, factors=factors)
        circle = PairDataset(tmp_path / kind, sigma=0.1)
        found[kind] = best_box(with_defaults(TrainSettings(batch=64), circle.source.world, 8, 400), circle)
    assert found["box"] is not None
    assert found["periodic"] is not None
    assert found["periodic"].pair_width == pytest.approx(found["box"].pair_width, rel=0.2)
    assert found["periodic"].width > 0.5 * found["box"].width


def test_a_temperature_scales_the_best_box(pairs: PairDataset) -> None:
    cold, usual = (best_box(complete(pairs, tau=tau), pairs) for tau in (1e-6, 1.0))
    assert cold is not None
    assert usual is not None
    assert cold.width == pytest.approx(1e-3 * usual.width, abs=0.01)
    assert cold.loss == pytest.approx(usual.loss, abs=1e-3)


@pytest.mark.parametrize(("given", "start"), [({}, SHARE), ({"learnable": False}, 1.0)])
def test_a_box_that_cannot_move_starts_where_it_is_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], start: float
) -> None:
    path = make_dataset(tmp_path / "set", 64)
    settings = TrainSettings(encoder="tiny:convolution", batch=16, steps=1, dtype="fp32", **given)
    run = train(path, settings, out=tmp_path / "run", workers=0, show_progress=False, device="cpu")
    width = run.facts["best_box"]["width"]
    assert run.facts["bound"] == pytest.approx(start * width, abs=0.01)
    said = capsys.readouterr().err
    assert f"{run.facts['bound']:g} wide" in said
    assert (f"best width {width:g}" in said) == (start == SHARE)


def test_a_box_without_pairs_of_latents_says_where_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_dataset(tmp_path / "set", 64)
    settings = TrainSettings(encoder="tiny:convolution", batch=16, steps=1, dtype="fp32", cond="augment", loss="delta")
    run = train(path, settings, out=tmp_path / "run", workers=0, show_progress=False, device="cpu")
    assert (run.settings.bound, run.settings.space_lr) == (1.0, None)
    said = capsys.readouterr().err
    assert "1 wide" in said
    assert "without pairs" in said


def test_bound_is_a_number_or_auto(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 40)
    done = CliRunner().invoke(main, ["train", str(path), "--bound", "wide"])
    assert done.exit_code == 2
    assert "auto" in done.stderr
