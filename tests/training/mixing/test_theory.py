"""Runs on mixed latents: what is drawn, what is learnt, resumed to the bit, and what is refused."""

import json
import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.stores.lease import LEASE_PREFIX
from ident3d.training.loop import checkpoint
from ident3d.training.loop.log_file import read_log
from ident3d.training.losses.aninfonce import an_info_nce
from ident3d.training.losses.choice import spread_out
from ident3d.training.mixing import train as theory
from ident3d.training.mixing.by_lambda import blocks, r2_of_halves
from ident3d.training.mixing.ground_truth import global_minimum, stretched_precision
from ident3d.training.mixing.loss import MixingLoss
from ident3d.training.mixing.run import default_name
from ident3d.training.mixing.sampling import sampler
from ident3d.training.mixing.scores import evaluate_mixing, shown_figures
from ident3d.training.mixing.settings import CONDITIONALS, MARGINALS, MixingSettings, with_defaults
from ident3d.training.mixing.train import build, mixing

SMALL = MixingSettings(dim=4, encoder="32x2", whiten=True, bound=None, batch=128, steps=12, lr=3e-3, schedule="cosine")
CPU = torch.device("cpu")


def run(path: Path, s: MixingSettings = SMALL, **options: Any) -> theory.MixingRun:
    return mixing(s, out=path, device="cpu", show_progress=False, **options)


def weights(work: theory.MixingRun) -> list[torch.Tensor]:
    return [value.clone() for value in [*work.encoder.state_dict().values(), *work.loss.state_dict().values()]]


@pytest.mark.parametrize("space", MARGINALS)
def test_every_distribution_stays_on_its_space(space: str) -> None:
    for marginal in MARGINALS[space]:
        for cond in CONDITIONALS[space]:
            lambdas = ((5.0, 25.0),) if cond == "rejected_normal" else ()
            s = with_defaults(MixingSettings(latent_space=space, marginal=marginal, cond=cond, lambdas=lambdas, dim=4))
            z, z_tilde = sampler(s).draw(300, torch.Generator().manual_seed(0))
            for x in (z, z_tilde):
                assert x.shape == (300, 4)
                if space == "box":
                    assert 0 <= x.min() < x.max() <= 1
                if space == "sphere":
                    torch.testing.assert_close(x.norm(dim=1), torch.ones(300))
            assert not torch.equal(z, z_tilde)


def test_pairs_of_a_box_differ_by_the_conditional() -> None:
    z, z_tilde = sampler(with_defaults(MixingSettings(marginal="normal", marginal_sigma=0.05))).draw(
        5000, torch.Generator()
    )
    assert (z_tilde - z).std() == pytest.approx(0.05, rel=0.05)
    assert z.std(0).mean() == pytest.approx(0.05, rel=0.05)


def test_hard_negatives_are_drawn_around_their_anchor() -> None:
    s = with_defaults(MixingSettings(lambdas=((400.0,),), hard=(100.0,), hard_count=3, dim=5, batch=500))
    z, z_tilde, negatives = sampler(s).draw(500, torch.Generator().manual_seed(0))
    own = negatives.reshape(500, 3, 5) - z[:, None]
    assert own.norm(dim=2).mean() == pytest.approx(2 * float((z_tilde - z).norm(dim=1).mean()), rel=0.1)


def test_a_short_run_identifies_its_latents(tmp_path: Path) -> None:
    """Far above what is linear in the observations, and up to a permutation, as the theory says of a box."""
    s = replace(SMALL, dim=3, encoder="64x2", batch=256, steps=500, model_p=1.0, cond="laplace", lr=1e-2)
    work = run(tmp_path / "run", s)
    found = evaluate_mixing(work)
    figures = found["figures"]
    assert figures["R²"] > 0.95 > figures["identity R²"]
    assert figures["MCC"] > 0.95
    assert json.loads((tmp_path / "run/evaluation.json").read_text())["figures"] == figures
    # no code can be much better than the latents themselves
    losses = [line["loss"] for line in read_log(tmp_path / "run")]
    assert losses[-1] > found["facts"]["minimum"]["loss"] - 0.1


def test_supervised_is_the_ceiling(tmp_path: Path) -> None:
    s = replace(SMALL, supervised=True, steps=400, lr=1e-2)
    assert evaluate_mixing(run(tmp_path / "run", s))["figures"]["R²"] > 0.97


@pytest.mark.parametrize(
    "change",
    [
        {"space": "unbounded", "model_p": 3.0, "cond": "gennorm"},
        {"latent_space": "sphere", "cond": "vmf", "kappa": 10.0},
        {"lambdas": ((5.0, 25.0), (25.0, 5.0))},
        {"lambdas": ((150.0,),), "hard": (100.0,), "hard_count": 2},
        {"lambdas": ((150.0,),), "hard": (100.0,), "hard_count": 2, "hard_beside": True, "hard_after": 3},
        {"lambdas": ((5.0, 25.0),), "loss": "simclr", "tau": 0.1},
        {"space": "box", "loss": "simclr"},
        {"dtype": "bf16"},
        {"mixing": "own_mixing:Twice", "encoder": "own_mixing:line"},
        {"loss": "tiny:squared"},
    ],
)
def test_an_interrupted_run_ends_with_the_same_bits(change: dict[str, Any], tmp_path: Path) -> None:
    s = replace(SMALL, **change)
    whole = weights(run(tmp_path / "whole", s))
    stepping, calls = theory.one_step, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return stepping(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory, "one_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "parts", s)
    assert checkpoint.load(tmp_path / "parts").step == 5
    parts = weights(run(tmp_path / "parts", s, resume=True))
    assert len(whole) == len(parts)
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_a_run_is_not_overwritten_or_mixed_up(tmp_path: Path) -> None:
    run(tmp_path / "run")
    with pytest.raises(UserError, match="holds a run already"):
        run(tmp_path / "run")
    with pytest.raises(UserError, match=r"other settings \(lr"):
        run(tmp_path / "run", replace(SMALL, lr=1e-2), resume=True)
    (tmp_path / "run/run.json").write_text("{}")
    with pytest.raises(UserError, match=r"run\.json is no valid record"):
        run(tmp_path / "run", resume=True)


def test_a_run_whose_folder_was_taken_over_writes_nothing_more(tmp_path: Path) -> None:
    """As one that was stopped for minutes finds it when it wakes: another process has finished the run meanwhile."""
    path, stepping, calls = tmp_path / "run", theory.one_step, []

    def overtaken(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 5:
            (claim,) = path.glob(f"{LEASE_PREFIX}*")
            claim.write_text(json.dumps({"host": "elsewhere", "pid": 7}))
        return stepping(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory, "one_step", overtaken)
        with pytest.raises(UserError, match="process 7 on elsewhere took over"):
            run(path, save_every=3)
    assert checkpoint.load(path).step == 3
    assert read_log(path)[-1]["step"] == 3


def test_every_setting_is_in_the_default_name() -> None:
    s = with_defaults(SMALL)
    assert default_name(s).startswith("box-normal-delta-box-")
    assert default_name(s) != default_name(replace(s, lr=1.0))
    assert MixingSettings.from_dict(json.loads(json.dumps(s.as_dict()))) == s


def test_lambda_is_learnt_towards_the_best(tmp_path: Path) -> None:
    s = replace(SMALL, lambdas=((4.0, 40.0),), encoder="64x2", batch=256, steps=500, lr=1e-2, lambda_lr=0.2)
    work = run(tmp_path / "run", s)
    found = evaluate_mixing(work)
    low, high = (np.mean(block) for block in blocks(work.settings.lambdas[0], work.loss.diagonals()[0].tolist()))
    best_low, best_high = (
        np.mean(b) for b in blocks(work.settings.lambdas[0], found["facts"]["minimum"]["precision"][0])
    )
    assert high > 3 * low
    assert best_low == pytest.approx(4, rel=0.25)
    assert best_high == pytest.approx(40, rel=0.25)
    off = max(abs(low / best_low - 1), abs(high / best_high - 1))
    assert found["figures"]["Λ̂ off"] == pytest.approx(off)
    assert {"R² content", "R² style"} <= found["figures"].keys()
    lines = [line["precision"] for line in read_log(tmp_path / "run")]
    assert read_log(tmp_path / "run")[-1]["R² content"] > 0.5
    assert lines[-1][0] == pytest.approx(sorted(work.loss.diagonals()[0].tolist()), abs=1e-4)


def test_hard_negatives_have_the_difference_as_their_best_lambda() -> None:
    """Λ̂ = Λ⁺ - Λ⁻, where the sphere is nearly flat: for large Λ, and without the norm's rejection for many latents."""
    s = with_defaults(MixingSettings(dim=6, lambdas=((900.0,),), hard=(300.0,), hard_count=4, batch=2000))
    least = global_minimum(s)
    assert np.mean(least.precision[0]) == pytest.approx(600, rel=0.05)
    assert least.at_lambda == pytest.approx(least.loss, abs=4 * least.error + 1e-3)


@pytest.mark.slow
def test_stretched_latents_have_another_best_lambda() -> None:
    """What the public log ends with at Λ = (5, 25), 5.5 and 23.1, is nearer to it than the best Λ̂ at f = g⁻¹."""
    s = with_defaults(MixingSettings(lambdas=((5.0, 25.0),), batch=256))
    (best,), (stretched,) = global_minimum(s).precision, stretched_precision(s)
    low, high = np.mean(best[:5]), np.mean(best[5:])
    assert np.mean(stretched[:5]) == pytest.approx(1.06 * low, rel=0.03)
    assert np.mean(stretched[5:]) == pytest.approx(0.93 * high, rel=0.03)
    assert stretched_precision(with_defaults(MixingSettings(lambdas=((5.0, 25.0),), space="unbounded"))) == []


def test_each_process_has_a_loss_of_its_own_pairs() -> None:
    """The mean of AnInfoNCE over processes, each with its own Λ̂; hard negatives are told from their own positive."""
    s = with_defaults(MixingSettings(dim=4, lambdas=((5.0, 25.0), (25.0, 5.0)), batch=50))
    loss, latents = MixingLoss(s), sampler(s).draw(50, torch.Generator().manual_seed(0))
    own = [torch.tensor([5.0, 5, 25, 25]), torch.tensor([25.0, 25, 5, 5])]
    for member, precision in zip(loss.members, own, strict=True):
        member.precision = Fixed(precision)
    first, second = (an_info_nce(*latents[2 * k : 2 * k + 2], own[k]).mean() for k in (0, 1))
    assert float(loss(latents, latents)) == pytest.approx(float((first + second) / 2), rel=1e-5)

    s = with_defaults(MixingSettings(dim=4, lambdas=((25.0,),), hard=(5.0,), hard_count=2, batch=3))
    loss, latents = MixingLoss(s), sampler(s).draw(3, torch.Generator().manual_seed(0))
    loss.members[0].precision = Fixed(torch.full((4,), 20.0))
    z, positive, negatives = (x.double().numpy() for x in latents)
    terms = []
    for i in range(3):
        others = (positive[i], negatives[2 * i], negatives[2 * i + 1])
        similar = np.array([-10 * np.square(z[i] - other).sum() for other in others])
        terms.append(np.log(np.exp(similar).sum()) - similar[0])
    assert float(loss(latents, latents)) == pytest.approx(np.mean(terms), rel=1e-4)


class Fixed(torch.nn.Module):
    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.value = value

    def forward(self) -> torch.Tensor:
        return self.value


def test_the_minimum_is_below_every_other_scale() -> None:
    # Without an anchor among its own negatives, the minimum over the scale is almost flat.
    s = with_defaults(replace(SMALL, model_p=2.0, negatives="batch"))
    least = global_minimum(s)
    loss, draws = MixingLoss(s), sampler(s)
    for factor in (0.7, 1.4):
        total = 0.0
        for seed in range(20):
            latents = draws.draw(s.batch, torch.Generator().manual_seed(seed))
            total += float(loss([factor * least.scale * z for z in latents], latents)) / 20
        assert total > least.loss + 3 * least.error


@pytest.mark.parametrize("whiten", [True, False])
def test_the_box_starts_at_the_best_scale(whiten: bool) -> None:
    s = build(replace(SMALL, whiten=whiten), CPU).settings
    assert s.bound is not None
    assert s.bound == pytest.approx(1.3 * global_minimum(with_defaults(SMALL), steps=100).scale, rel=0.05)


def test_blocks_know_no_order() -> None:
    assert blocks([25, 5, 25, 5], [1, 4, 3, 2]) == [[1, 2], [3, 4]]


def test_content_varies_less_than_style() -> None:
    r2 = np.array([0.1, 0.2, 0.6])
    assert r2_of_halves(((5.0, 25.0, 25.0),), r2) == pytest.approx({"R² style": 0.1, "R² content": 0.4})
    assert r2_of_halves(((25.0, 5.0, 5.0),), r2) == pytest.approx({"R² content": 0.1, "R² style": 0.4})
    assert r2_of_halves(((5.0, 5.0, 5.0),), r2) == {}
    assert r2_of_halves(((5.0, 25.0, 25.0), (25.0, 5.0, 5.0)), r2) == {}


def test_the_defaults_are_the_papers() -> None:
    s = with_defaults(MixingSettings())
    assert (s.latent_space, s.marginal, s.cond, s.sigma, s.space, s.loss, s.model_p) == (
        "box", "uniform", "normal", 0.05, "box", "delta", 2.0,
    )  # fmt: skip
    assert (s.batch, s.steps, s.lr, s.tau, s.bound) == (6144, 300_000, 1e-4, 1.0, 1.0)
    assert with_defaults(MixingSettings(supervised=True)).steps == 100_000
    assert [layer.out_features for layer in build(s, CPU).encoder.modules() if isinstance(layer, torch.nn.Linear)] == [
        100, 500, 500, 500, 500, 100, 10,
    ]  # fmt: skip
    an = with_defaults(MixingSettings(lambdas=((5.0, 25.0),)))
    assert (an.latent_space, an.cond, an.space, an.loss) == ("sphere", "rejected_normal", "sphere", "aninfonce")
    assert an.lambdas == ((5.0,) * 5 + (25.0,) * 5,)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--latent-space ball", "box, sphere, unbounded"),
        ("--latent-space shpere", "Did you mean 'sphere'?"),
        ("--marginal gauss", "choose one of uniform, normal, laplace, gennorm"),
        ("--marginal vmf", "The box has no marginal vmf; choose one of uniform, normal, laplace, gennorm"),
        (
            "--latent-space unbounded --marginal uniform",
            "The unbounded space has no marginal uniform; choose one of normal, laplace, gennorm",
        ),
        ("--latent-space unbounded --cond vmf", "has no conditional vmf; choose one of normal, laplace, gennorm"),
        ("--cond student", "choose one of normal, laplace, gennorm"),
        ("--space torus", "choose one of box, sphere, unbounded"),
        ("--dim 1", "--dim is at least 2"),
        ("--lambda 5,-1", "a number above 0, not -1"),
        ("--lambda 5,nan", "a number above 0, not nan"),
        ("--lambda 5,25,3", "takes one value, one for each of the 10 dimensions"),
        ("--lambda five", "--lambda takes numbers"),
        ("--lambda 5 --latent-space box", "--latent-space box"),
        ("--loss aninfonce", "--loss aninfonce learns the Λ"),
        ("--kappa 10", "--kappa is for --cond vmf; here the marginal is uniform, the conditional normal"),
        ("--lambda 5,25 --sigma 0.1", "--sigma is for --cond normal, laplace or gennorm"),
        ("--cond-p 5", "--cond-p is for --cond or --marginal gennorm"),
        ("--marginal-sigma 2", "--marginal-sigma is for --marginal normal"),
        ("--hard-count 4", "--hard-count is for --hard-lambda"),
        ("--alpha 0.3", "--alpha is for --loss au"),
        ("--radius 2", "--radius is for --space sphere"),
        ("--lambda 5 --cond vmf", "belong together"),
        ("--cond rejected_normal --latent-space sphere", "belong together"),
        ("--hard-lambda 5", "goes with one --lambda"),
        ("--lambda 5 --hard-lambda 5,5,5", "--hard-lambda takes one value"),
        ("--sigma 0", "--sigma is a number above 0"),
        ("--lambda 5,25 --hard-lambda 4,25", "--lambda is above --hard-lambda"),
        ("--bound big", "--bound takes a number"),
        ("--bound 1,2", "--bound takes a number"),
        ("--lambda 5,25 --tau 0.1", "--tau is for --loss"),
        ("--loss au --negatives others", "--negatives others is for --loss infonce, delta"),
        ("--loss au --alpha 2", "--alpha is a share from 0 to 1"),
        ("--loss infonce", "--loss infonce"),
        ("--space sphere --model-p 2", "--model-p is for --loss delta, au"),
        ("--model-p 0.5", "at least 1, not 0.5"),
        ("--loss mse", "belong together"),
        ("--batch 1", "--batch is at least 2"),
        ("--schedule linear", "choose one of constant, onecycle, cosine"),
        ("--encoder 256y4", "take papers, hidden widths such as 256x4"),
        ("--encoder own_mixing:too_few --steps 1", "where (2, 10) are needed"),
        ("--mixing own_mixing:flat --steps 1", "one row of numbers for each"),
        ("--mixing nowhere:g", "cannot be imported"),
        ("--encoder own_mixing:too_many", "The encoder 'own_mixing:too_many' raised RuntimeError: mat1 and mat2"),
        ("--mixing own_mixing:TooMany", "The mixing 'own_mixing:TooMany' raised RuntimeError: mat1 and mat2"),
    ],
)
def test_bad_input_gets_one_sentence(options: str, sentence: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["mixing", *options.split(), "--out", str(tmp_path / "run")])
    assert result.exit_code == 2, result.output
    assert sentence in " ".join(result.stderr.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ("constant", "has no gradient: its value does not depend on the codes."),
        ("of_two", "takes 2 positional arguments but 3 were given"),
        ("broken", "raised RuntimeError: mat1 and mat2"),
    ],
)
def test_a_loss_of_a_users_own_that_fails_is_one_sentence(loss: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        run(tmp_path, replace(SMALL, bound=1.0, loss=f"own_mixing:{loss}"))
    if loss == "broken":
        with pytest.raises(UserError, match=r"\(own_mixing.py, line \d+\)\.$"):
            run(tmp_path, replace(SMALL, bound=1.0, loss=f"own_mixing:{loss}"))


def test_a_loss_without_a_minimum_at_the_latents_is_scored_all_the_same(tmp_path: Path) -> None:
    work = run(tmp_path, replace(SMALL, bound=1.0, steps=2, loss="own_mixing:steep"))
    found = evaluate_mixing(work)
    assert "R²" in found["figures"]
    assert "minimum" not in found["facts"]
    assert "loss at f = g⁻¹" not in shown_figures(found, MixingSettings())
    with pytest.raises(UserError, match="no minimum over the scale"):
        run(tmp_path / "match", replace(SMALL, loss="own_mixing:steep"))


def test_the_runs_loss_stands_beside_the_least(tmp_path: Path) -> None:
    found = evaluate_mixing(run(tmp_path, replace(SMALL, steps=2)))
    assert found["facts"]["loss"] > found["facts"]["minimum"]["loss"]
    assert f"loss            {found['facts']['loss']:.4f}\nloss at f = g⁻¹ " in shown_figures(found, MixingSettings())


def test_the_command(tmp_path: Path) -> None:
    options = [
        "--dim",
        "4",
        "--encoder",
        "32x2",
        "--batch",
        "64",
        "--steps",
        "4",
        "--bound",
        "match",
        "--lambda",
        "5,25",
        "--whiten",
    ]
    result = CliRunner().invoke(main, ["mixing", *options, "--out", str(tmp_path / "run"), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["run"] == str(tmp_path / "run")
    assert math.isfinite(found["figures"]["R²"])
    again = CliRunner().invoke(main, ["mixing", *options, "--out", str(tmp_path / "run"), "--resume"])
    assert again.exit_code == 0
    assert "R² style" in again.stdout
    assert "Λ 5, 25: best Λ̂ " in again.stdout
    assert len(found["facts"]["precision"][0]) == 4


def test_spread_out() -> None:
    assert spread_out("lambda", (5, 25), 4) == (5.0, 5.0, 25.0, 25.0)
    assert spread_out("lambda", (1, 2, 3), 3) == (1.0, 2.0, 3.0)
