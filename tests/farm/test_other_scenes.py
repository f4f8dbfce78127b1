"""The proofs of determinism and of faults, run again in the causal scene (slow: some minutes)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bpy, pytest.mark.slow]


@pytest.mark.parametrize("proof", ["test_determinism", "test_faults"])
def test_the_proofs_hold_in_the_causal_scene(proof: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--no-cov", str(Path(__file__).with_name(f"{proof}.py"))]
    environment = os.environ | {"IDENT3D_TEST_SCENE": "causal3dident"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout  # and not all of them skipped
