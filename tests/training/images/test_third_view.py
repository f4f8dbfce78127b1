"""Pairs with a third image on images: hard negatives, and two conditionals with a Λ̂ each; losses, pairs, runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from synthetic import make_dataset
from torch import Tensor

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.parts import objective_of
from ident3d.training.images.run import new_pairs, open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop.checkpoint import CHECKPOINT_FILE
from ident3d.training.loop.log_file import read_log
from ident3d.training.report.report import write_report

DIM = 4
TINY: dict[str, Any] = {"encoder": "tiny:plain", "batch": 16}
HARD, TWO = {"lambdas": ((400.0,),), "hard": (100.0,)}, {"lambdas": ((400.0, 25.0), (25.0, 400.0))}


def complete(world: World | None = None, **given: Any) -> TrainSettings:
    return with_defaults(TrainSettings(**{"batch": 8} | given), world or World(), 16, 100)


@pytest.mark.parametrize(
    ("given", "similarity", "itself"),
    [
        ({"loss": "delta", "tau": 0.5}, lambda a, b: -((a - b) ** 2).sum(-1) / 0.5, False),
        ({"loss": "delta", "negatives": "batch", "model_p": 3.0}, lambda a, b: -((a - b).abs() ** 3).sum(-1), True),
        ({"loss": "infonce", "space": "sphere", "tau": 0.2}, lambda a, b: (a * b).sum(-1) / 0.2, False),
        ({"loss": "aninfonce"}, None, False),
    ],
)
def test_a_hard_negative_stands_next_to_the_shared_ones(given: dict[str, Any], similarity: Any, itself: bool) -> None:
    objective = objective_of(complete(**given, **HARD, dim=DIM))
    codes = torch.nn.functional.normalize(torch.randn(18, DIM, generator=torch.Generator().manual_seed(0)), dim=1)
    if similarity is None:
        diagonal = objective.diagonals()[0].detach()
        similarity = lambda a, b: -((a - b) ** 2 * diagonal).sum(-1) / 2  # noqa: E731
    z, z_tilde, hard = codes.chunk(3)
    shared = similarity(z[:, None], z[None]).exp()
    if not itself:
        shared = shared * (1 - torch.eye(6))
    positive = similarity(z, z_tilde)
    expected = (positive.exp() + similarity(z, hard).exp() + shared.sum(1)).log() - positive
    torch.testing.assert_close(objective(codes, (z,) * 3).detach(), expected.mean())


def test_two_conditionals_share_the_anchor_and_have_a_precision_each() -> None:
    objective = objective_of(complete(loss="aninfonce", **TWO, dim=DIM))
    assert [tuple(diagonal.shape) for diagonal in objective.diagonals()] == [(DIM,)] * 2
    codes = torch.randn(18, DIM, generator=torch.Generator().manual_seed(0))
    z, first, second = codes.chunk(3)
    single = objective_of(complete(loss="aninfonce", dim=DIM))
    halves = [single(torch.cat([z, other]), (z, z)) for other in (first, second)]
    torch.testing.assert_close(objective(codes, (z,) * 3), (halves[0] + halves[1]) / 2)
    objective(codes, (z,) * 3).backward()
    gradients = [parameter.grad for parameter in objective.parameters()]
    assert len(gradients) == 2
    assert not torch.equal(*[gradient for gradient in gradients if isinstance(gradient, Tensor)])


def test_pairs_have_the_widths_of_their_precisions(tmp_path: Path) -> None:
    images = ImageDataset(make_dataset(tmp_path / "set", 60))
    pairs = new_pairs(complete(loss="aninfonce", lambdas=((10_000.0, 25.0), (25.0, 10_000.0))), images)
    assert pairs.members == 3
    sampler = pairs.sampler
    drawn = sampler.pairs(np.arange(400))
    away = np.abs(drawn.drawn - sampler.latents[drawn.anchor]).mean(0)
    np.testing.assert_allclose(away[:5], 0.798 * 0.01, rtol=0.15)  # the mean of |N(0, σ)| is 0.798 σ
    assert (away[5:] > 0.1).all()
    assert sampler.negative is not None
    usual = new_pairs(complete(), images)
    assert usual.members == 2
    assert (usual.sampler.pairs(np.arange(400)).anchor == drawn.anchor).all()


@pytest.mark.parametrize("given", [HARD, TWO | {"loss": "aninfonce"}])
def test_a_run_with_a_third_view_goes_on_to_the_bit(root: Path, tmp_path: Path, given: dict[str, Any]) -> None:
    options: dict[str, Any] = {"workers": 0, "show_progress": False, "device": "cpu", "log_every": 1}
    whole = train(root / "train", TrainSettings(**TINY, **given, steps=4), out=tmp_path / "whole", **options)
    train(root / "train", TrainSettings(**TINY, **given, steps=2), out=tmp_path / "parts", **options)
    train(root / "train", TrainSettings(**TINY, **given, steps=4), out=tmp_path / "parts", resume=True, **options)
    one, other = (load_file(tmp_path / name / CHECKPOINT_FILE) for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one if name.startswith(("model.", "objective.")))
    again = open_run(whole.path)
    assert again.settings == whole.settings
    assert again.settings.lambdas == whole.settings.lambdas
    with pytest.raises(UserError, match="lambdas"):
        train(root / "train", TrainSettings(**TINY, steps=4), out=tmp_path / "parts", resume=True, **options)
    page = write_report(whole).read_text()
    assert ("hard negative" in page) == ("hard" in given)
    if "hard" not in given:
        assert [len(row) for row in read_log(whole.path)[-1]["precision"]] == [10, 10]
        assert "Λ̂ of both conditionals" in page


def test_settings_without_precisions_are_recorded_as_before() -> None:
    """So a run's default name, which is made of its record, is still found by --resume."""
    assert not {"lambdas", "hard"} & complete().as_dict().keys()
    given = complete(**HARD)
    assert given.hard == (100.0,) * 10
    recorded = json.loads(json.dumps(given.as_dict()))
    assert TrainSettings.from_dict(recorded) == given


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ({"lambdas": ((1.0, 2.0, 3.0),)}, "10"),
        ({"lambdas": ((-1.0,),)}, "--lambda"),
        ({"lambdas": ((5.0,),) * 3}, "3 times"),
        ({"lambdas": ((5.0,),), "sigma": 0.2}, "--sigma"),
        ({"lambdas": ((5.0,),), "cond": "laplace"}, "--cond laplace"),
        ({"lambdas": ((5.0,),), "supervised": True}, "supervised"),
        ({"hard": (50.0,), "cond": "augment"}, "augment"),
        ({"hard": (50.0,), "lambdas": ((5.0,), (6.0,))}, "--hard-lambda"),
        ({"hard": (50.0,), "loss": "au"}, "--loss"),
        ({"lambda_lr": 0.1}, "--lambda-lr is for --loss aninfonce"),
        ({"loss": "aninfonce", "lambda_lr": 0.0}, "--lambda-lr"),
        ({"hard": (150.0,), "loss": "aninfonce"}, "Λ⁺ - Λ⁻"),  # σ is 0.1, so Λ⁺ is 100
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], fact: str) -> None:
    with pytest.raises(UserError) as error:
        complete(**given)
    assert fact in str(error.value)


def test_latents_of_a_sphere_have_no_such_precision() -> None:
    with pytest.raises(UserError, match="sphere"):
        complete(World("3dident-periodic"), lambdas=((5.0,),))


def test_train_takes_them_on_the_command_line(root: Path, tmp_path: Path) -> None:
    words = ["train", root / "train", "--out", tmp_path / "run", "--encoder", "tiny:plain", "--batch", 16, "--steps", 2]
    words += ["--loss", "aninfonce", "--lambda", "400,25", "--lambda", "25,400", "--workers", 0, "--device", "cpu"]
    words += ["--lambda-lr", 3, "--log-every", 1]
    done = CliRunner().invoke(main, [str(word) for word in [*words, "--metrics", "mcc_pearson"]])
    assert done.exit_code == 0, done.output
    recorded = json.loads((tmp_path / "run/run.json").read_text())["settings"]
    assert recorded["lambdas"] == [[400.0] * 5 + [25.0] * 5, [25.0] * 5 + [400.0] * 5]
    assert recorded["lambda_lr"] == 3
    # Adam's first step moves every entry by its rate, whatever the gradient; Λ̂ starts near .7.
    first = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[0])
    assert first["precision_min"] < 0.1 or first["precision_max"] > 3
