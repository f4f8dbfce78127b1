"""`--dtype auto` is one number format for all seeds, however they are begun: runs beside each other are compared."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ident3d.training.encoders.image_encoder import encoder
from ident3d.training.encoders.output_spaces import Unbounded
from ident3d.training.images.parts import dtype_here
from ident3d.training.images.run import dtype_beside, open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop.dtype import cpu_has_bf16
from ident3d.training.views.pixels import Pixels


def test_auto_takes_the_format_of_another_seed(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "run", tmp_path / "seed0")
    record = json.loads((tmp_path / "seed0/run.json").read_text())
    (tmp_path / "seed0/run.json").write_text(json.dumps(record | {"dtype": "bf16"}))
    run = open_run(tmp_path / "seed0")
    other, new = replace(run.settings, seed=1), tmp_path / "seed1"
    assert dtype_beside(new, other, run.data) == "bf16"
    assert dtype_beside(new, replace(other, batch=64), run.data) is None
    assert dtype_beside(new, other, run.data | {"shards_sha256": "0" * 64}) is None
    assert dtype_beside(tmp_path / "elsewhere/seed1", other, run.data) is None
    # Below 32 pixels a CPU has no bf16, whatever stands beside.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/run.json").write_text("{")
    found = train(root / "train", other, out=new, workers=0, device="cpu", show_progress=False)
    assert found.dtype == "fp32"


@pytest.mark.skipif(not cpu_has_bf16(), reason="this CPU computes in float32 alone")
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_format_beside_is_not_timed_again(dtype: str) -> None:
    settings, pixels = TrainSettings(batch=2, size=32, dim=2), Pixels((0.0,) * 3, (1.0,) * 3, 32)
    model = encoder("conv", Unbounded(2), size=32)
    assert dtype_here(settings, model, pixels, torch.device("cpu"), dtype) == dtype
