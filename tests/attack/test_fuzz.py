"""Files that are wrong on purpose end in a sentence, in bounded time and memory, and write nothing elsewhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).with_name("fuzz.py")
TARGETS = 28


@pytest.mark.parametrize("count", [56, pytest.param(None, marks=pytest.mark.slow)])
def test_hostile_files_end_in_a_sentence(count: int | None, request: pytest.FixtureRequest) -> None:
    count = count or request.config.getoption("--fuzzed")
    command = [sys.executable, str(FUZZ), "--count", str(count), "--seed", "15"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout)
    report = json.loads(done.stdout)
    assert report["failures"] == []
    fates = {name: report["found"].pop(name) for name in ("read", "refused")}
    # Every kind of file had its turn, and the readers did read: not all of what is changed is wrong.
    assert len(report["found"]) == TARGETS
    assert sum(report["found"].values()) == count
    assert min(fates.values()) > count / 5
    assert report["largest_gb"] < 1.5
