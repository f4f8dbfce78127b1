"""Killed commands end as if nothing had happened, and repairs that fail lose nothing.

By hand: ``make test ARGS='-m slow tests/attack/test_storms.py --kills 500 --faults 200'``.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest

HERE = Path(__file__).parent


def storm(script: str, count: int, *words: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / script), "--count", str(count), "--seed", "15", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_killed_commands_end_with_the_same_bytes() -> None:
    pytest.importorskip("distributed", reason="the commands that render come with the extra render")
    report = storm("kills.py", 24)
    assert report["failures"] == []
    assert sum(report["kills"].values()) >= 24
    # A command has its turn in each round, and dies at most four times in one.
    assert len({name.rpartition(",")[0] for name in report["kills"]}) >= 6


@pytest.mark.slow
def test_many_killed_commands_end_with_the_same_bytes(request: pytest.FixtureRequest) -> None:
    count = request.config.getoption("--kills")
    report = storm("kills.py", count, *(["--render"] if find_spec("bpy") else []))
    assert report["failures"] == []
    assert sum(report["kills"].values()) >= count


@pytest.mark.parametrize("count", [30, pytest.param(None, marks=pytest.mark.slow)])
def test_faults_during_repairs_cost_no_sound_shard(count: int | None, request: pytest.FixtureRequest) -> None:
    if not which("gcc"):
        pytest.skip("system calls fail by a library that gcc compiles")
    count = count or request.config.getoption("--faults")
    report = storm("faults.py", count)
    assert report["failures"] == []
    assert sum(report["faults"].values()) == count
    # The faults did come: most of them changed what the repair said.
    assert report["showed"] > count / 2
