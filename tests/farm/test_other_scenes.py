"""The proofs of determinism, faults and clusters in the causal scene and in a user's own (slow: some minutes)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from farm.test_own_scene import LAMP

pytestmark = [pytest.mark.bpy, pytest.mark.slow]


@pytest.mark.parametrize("scene", ["causal3dident", "Lamp"])
@pytest.mark.parametrize("proof", ["test_determinism", "test_faults", "test_cluster"])
def test_the_proofs_hold_in_other_scenes(proof: str, scene: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", str(Path(__file__).with_name(f"{proof}.py"))]
    if scene == "Lamp":
        (tmp_path / "mine.py").write_text(LAMP)
        scene = f"{tmp_path / 'mine.py'}:Lamp"
    environment = os.environ | {"IDENT3D_TEST_SCENE": scene}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout  # and not all of them skipped
