"""What a run decides at start-up: number formats, memory that is kept, devices, rates."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.training.encoders.resnet import resnet
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop.devices import device_of, join_ranks
from ident3d.training.loop.dtype import SMALLEST_IN_BF16, choose_dtype, cpu_has_bf16
from ident3d.training.loop.log import Log
from ident3d.training.loop.steps import rate_factor

FAULTS = """
import resource, sys, torch
from ident3d.memory import keep_memory
torch.set_num_threads(1)
assert sys.argv[1] == "as usual" or keep_memory()
for _ in range(10):  # the heap finds its size in the first five
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(10_000_000) for _ in range(3)]  # each beyond the most that glibc learns to keep, 32 MB
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's mallopt")
def test_freed_memory_is_kept() -> None:
    """The page faults of the last of several rounds that use the same 120 MB."""
    found = [
        int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True).stdout)
        for how in ("as usual", "kept")
    ]
    assert found[0] > 20_000
    assert found[1] < 1_000


def test_auto_keeps_float32_where_nothing_is_faster() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    chosen, seconds = choose_dtype("auto", network, torch.randn(4, 3, 1, 1))
    assert (chosen, seconds) == ("fp32", {})


@pytest.mark.skipif(not cpu_has_bf16(), reason="this CPU has no bf16 instructions")
def test_auto_measures_and_leaves_the_network_as_it_was() -> None:
    network = resnet(18, 10)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    chosen, seconds = choose_dtype("auto", network, torch.randn(8, 3, SMALLEST_IN_BF16, SMALLEST_IN_BF16))
    assert set(seconds) == {"fp32", "bf16"}
    assert chosen == "fp32" or seconds["bf16"] < seconds["fp32"]
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_devices() -> None:
    assert device_of("cpu") == torch.device("cpu")
    assert device_of("auto").type in ("cpu", "cuda")
    for name in ("gpu", "meta"):
        with pytest.raises(UserError, match=r"There is no device 'gpu'|trains on cpu, cuda or mps"):
            device_of(name)
    if not torch.backends.mps.is_available():
        with pytest.raises(UserError, match="no Apple GPU here"):
            device_of("mps")


@pytest.mark.parametrize("missing", ["RANK", "MASTER_ADDR"])
def test_a_world_without_a_rank_is_one_sentence(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(missing)
    with pytest.raises(UserError, match="start ranks with torchrun, or unset WORLD_SIZE"), join_ranks("cpu"):
        pass


def test_one_cycle_goes_up_and_down() -> None:
    factors = [rate_factor("onecycle", 100, step) for step in range(100)]
    assert factors[0] == pytest.approx(0.04)
    assert max(factors) == pytest.approx(1.0)
    assert factors.index(max(factors)) == 30
    assert factors[:30] == sorted(factors[:30])
    assert factors[30:] == sorted(factors[30:], reverse=True)
    assert factors[-1] < 0.01
    assert {rate_factor("constant", 30_000, step) for step in (0, 29_999)} == {1.0}


def test_a_cosine_goes_down() -> None:
    factors = [rate_factor("cosine", 100, step) for step in range(100)]
    assert (factors[0], factors[50]) == (1.0, pytest.approx(0.5))
    assert factors == sorted(factors, reverse=True)
    assert 0 < factors[-1] < 0.001


def test_the_usual_space_is_where_the_loss_looks() -> None:
    for settings, space in {
        TrainSettings(): "box",
        TrainSettings(cond="augment"): "sphere",
        TrainSettings(loss="simclr"): "sphere",
        TrainSettings(cond="augment", loss="delta"): "box",
        TrainSettings(supervised=True): "unbounded",
    }.items():
        assert with_defaults(settings, World(), 64, 1000).space == space
    assert with_defaults(TrainSettings(cond="vmf"), World("3dident-periodic"), 64, 1000).space == "box*sphere"


def test_tensorboard_is_asked_for_in_one_sentence(tmp_path: Path) -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(UserError, match="pip install tensorboard"):
            Log(tmp_path, 0, 1, show=False, tensorboard=True)
    else:
        Log(tmp_path, 0, 1, show=False, tensorboard=True).close()
        assert list((tmp_path / "tensorboard").iterdir())
