"""`ident3d bench train` measures both loops for real."""

import json
from pathlib import Path

from click.testing import CliRunner
from synthetic import make_dataset

from ident3d.cli import main


def test_both_loops_are_measured(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 40)
    words = ["bench", "train", str(path), "--batch", "8", "--steps", "2", "--encoder", "conv", "--threads", "2"]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["plain"] > 0
    assert 0 < found["search"] < found["loader"] < found["ours"]
    assert 0 < found["passes"] < found["ours"]
    assert found["rest_share"] == 1 - found["passes"] / found["ours"]
    assert found["speedup"] == found["wall_of_one"] / found["wall"]
    assert found["faster"] == found["plain"] / found["ours"]
    refused = CliRunner().invoke(main, [*words, "--threads", "0"])
    assert refused.exit_code == 2
