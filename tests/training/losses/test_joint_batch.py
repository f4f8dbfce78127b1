"""Ranks and accumulation see the negatives of the joint batch: the same gradients as one process, to rounding."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from one_rank import JOINT, gradients
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.loop.accumulation import accumulated_backward
from ident3d.training.losses.contrastive import info_nce
from ident3d.training.losses.gather import average_gradients, first_row, gather


def test_two_ranks_have_the_gradients_of_one_process(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "one_rank.py"
    ranks = [
        subprocess.Popen([sys.executable, "-W", "error", script, str(rank), "2", tmp_path], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for rank in ranks:
        _, said = rank.communicate(timeout=120)
        assert rank.returncode == 0, said.decode()
    expected = gradients(0, 1, 2 * JOINT)
    for chunk in (2 * JOINT, 5):
        files = [np.load(tmp_path / f"rank{rank}_chunk{chunk}.npz", allow_pickle=False) for rank in range(2)]
        for name, value in expected.items():
            ours = [file[name] for file in files]
            if name.endswith("loss"):
                ours = [np.mean(ours)]
            for one in ours:
                np.testing.assert_allclose(one, value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("chunk", [1, 5, 12])
def test_accumulation_has_the_gradients_of_the_whole_batch(chunk: int) -> None:
    expected, ours = gradients(0, 1, 2 * JOINT), gradients(0, 1, chunk)
    for name, value in expected.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_one_process_gathers_itself() -> None:
    codes = torch.ones(3, 2, requires_grad=True)
    assert gather(codes) is codes
    assert first_row(codes) == 0
    codes.grad = torch.full((3, 2), 5.0)
    average_gradients([codes])
    assert torch.equal(codes.grad, torch.full((3, 2), 5.0))


def self_contrast(codes: Tensor) -> Tensor:
    return info_nce(*codes.chunk(2)).mean()


def test_batch_norm_keeps_its_running_statistics_once_per_chunk() -> None:
    model, plain = (nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)) for _ in range(2))
    inputs = torch.randn(8, 3) + 2
    accumulated_backward(model, inputs, self_contrast, 4)
    for part in inputs.split(4):
        plain(part)
    for ours, theirs in zip(model[0].buffers(), plain[0].buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_random_layers_see_the_same_draws_in_both_passes() -> None:
    torch.manual_seed(0)
    layer, drop = nn.Linear(3, 4), nn.Dropout(0.5)
    model = nn.Sequential(layer, drop)
    inputs = torch.randn(8, 3)
    torch.manual_seed(1)
    accumulated_backward(model, inputs, self_contrast, 2)
    after = torch.get_rng_state()
    assert layer.weight.grad is not None
    ours = layer.weight.grad.clone()
    layer.zero_grad()
    torch.manual_seed(1)
    self_contrast(torch.cat([model(part) for part in inputs.split(2)])).backward()
    torch.testing.assert_close(ours, layer.weight.grad)
    assert torch.equal(after, torch.get_rng_state())


def test_a_loss_that_ignores_the_codes_is_refused() -> None:
    parameter = nn.Parameter(torch.ones(()))
    with pytest.raises(UserError, match="nothing to learn"):
        accumulated_backward(nn.Linear(3, 2), torch.ones(4, 3), lambda codes: parameter * 2, 2)
