"""Where a box starts: the best width of the true latents on realised pairs, and what a run on a plateau is told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from synthetic import make_dataset

from ident3d import PairDataset
from ident3d.cli import main
from ident3d.losses import delta_contrastive
from ident3d.training.images.best_box import PAIRS, SHARE, BestBox, best_box
from ident3d.training.images.plateau import advice, plateau
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings, with_defaults
from ident3d.training.images.train import train
from ident3d.training.loop import checkpoint


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
    # The start is the same: from a narrow box a run does not get on.
    assert with_itself.start == without.start == pytest.approx(SHARE * without.width, abs=0.01)


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


BEST = BestBox(width=5.0, loss=1.2, pair_width=0.2, start=5.75)


def log_of(*r2: float, loss: float = 1.6) -> list[dict[str, Any]]:
    return [{"step": 20 * (k + 1), "r2": value, "loss": loss} for k, value in enumerate(r2)]


def test_a_plateau_is_flat_above_the_least_loss() -> None:
    flat, rising = [0.83] * 12, [0.6 + 0.01 * k for k in range(12)]
    found = plateau(log_of(*flat), BEST)
    assert found == (240, pytest.approx(0.83), pytest.approx(1.6))
    assert plateau(log_of(*rising), BEST) is None
    assert plateau(log_of(*flat, loss=1.22), BEST) is None
    assert plateau(log_of(*[0.97] * 12), BEST) is None
    assert plateau(log_of(*flat[:9]), BEST) is None
    assert plateau(log_of(*rising, *flat), BEST) is not None


def test_advice_names_what_the_run_could_change() -> None:
    found = plateau(log_of(*[0.83] * 12), BEST)
    assert found is not None
    said = advice(found, BEST, TrainSettings(space="box", bound=3.0))
    for fact in ("step 240", "0.83", "1.60", "1.20", f"--bound {BEST.start:g}", "resnet18+flat"):
        assert fact in said
    said = advice(found, BEST, TrainSettings(space="unbounded", encoder="conv"))
    assert "--bound" not in said
    assert "+flat" not in said


def test_bound_is_a_number_or_auto(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 40)
    done = CliRunner().invoke(main, ["train", str(path), "--bound", "wide"])
    assert done.exit_code == 2
    assert "auto" in done.stderr
