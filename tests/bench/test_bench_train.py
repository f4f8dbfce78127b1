"""`ident3d bench train` measures both loops for real."""

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from ident3d import from_arrays
from ident3d.bench.train import TrainBench
from ident3d.cli import main


def test_shares_of_a_step() -> None:
    seconds = {"plain": 6.0, "ours": 2.0, "passes": 1.5, "loader": 0.3, "search": 0.1, "wall": 1.0, "wall_of_one": 1.8}
    known = TrainBench(64, 512, 2, "conv", "bf16", True, **seconds)
    assert (known.faster, known.rest_share, known.loader_share, known.speedup) == (3, 0.25, 0.15, 1.8)
    cells = [[cell.strip() for cell in line.split("|")[2:4]] for line in known.table().splitlines()]
    assert cells[6:10] == [
        ["1.5000", "75.0 % of a step"],
        ["0.1000", "5.0 % of a step"],
        ["0.2000", "10.0 % of a step"],
        ["0.2000", "10.0 % of a step"],
    ]


def test_both_loops_are_measured_on_anybodys_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (40, 16, 16)).astype(np.uint8)
    path = from_arrays(grey, rng.uniform(-1, 1, (40, 10)), tmp_path / "set", show_progress=False).path
    words = ["bench", "train", str(path), "--batch", "8", "--steps", "2", "--encoder", "conv", "--threads", "2"]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["plain"] > 0
    assert 0 < found["search"] < found["loader"] < found["ours"]
    assert 0 < found["passes"] < found["ours"]
    assert {"rest_share", "speedup", "faster", "wall", "wall_of_one"} <= found.keys()
    refused = CliRunner().invoke(main, [*words, "--threads", "0"])
    assert refused.exit_code == 2
    # what the loaders are measured against reads colours and draws a scene's latents
    refused = CliRunner().invoke(main, ["bench", "loader", str(path)])
    assert refused.exit_code == 2
    assert "scene" in refused.stderr
