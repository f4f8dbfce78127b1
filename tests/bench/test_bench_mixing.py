"""The benchmark compares the same step: both loops see the same draws and take the same loss."""

import json

import pytest
import torch
from click.testing import CliRunner

from ident3d.bench.mixing import CASES, CPU
from ident3d.cli import main
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.mixing.train import build


@pytest.mark.parametrize("name", CASES)
def test_both_losses_agree(name: str) -> None:
    change, plain = CASES[name]
    work = build(MixingSettings(**{"batch": 100, "dim": 4, "encoder": "16x2", **change}), CPU)
    latents = work.sampler.draw(100, torch.Generator().manual_seed(0))
    codes = [work.encoded(work.observed(z)) for z in latents]
    torch.testing.assert_close(plain(*codes).mean(), work.loss(codes, latents), rtol=1e-5, atol=1e-6)


def test_the_command() -> None:
    options = ["--batch", "64", "--dim", "4", "--encoder", "16x2", "--steps", "1"]
    result = CliRunner().invoke(main, ["bench", "mixing", *options, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found["cases"]) == list(CASES)
    assert all(value > 0 for case in found["cases"].values() for value in case.values())
    table = CliRunner().invoke(main, ["bench", "mixing", *options]).stdout
    assert "64 pairs, d = 4" in table
    assert CliRunner().invoke(main, ["bench", "mixing", "--steps", "0"]).exit_code == 2
