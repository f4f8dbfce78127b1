"""torch's compiler loads code from its cache, which must not be anybody's folder."""

import os
import subprocess
import sys
from pathlib import Path


def test_torchs_compiler_keeps_its_cache_with_the_user(tmp_path: Path) -> None:
    """By default it is $TMPDIR/torchinductor_<user>, whoever owns that. It is made together with an optimiser."""
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    temporary.mkdir()
    surroundings = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    surroundings |= {"TMPDIR": str(temporary), "XDG_CACHE_HOME": str(cache)}
    code = "import ident3d.training.loop.devices, torch\ntorch.optim.Adam([torch.zeros(1, requires_grad=True)])"
    subprocess.run([sys.executable, "-c", code], env=surroundings, check=True, timeout=120)
    assert not list(temporary.iterdir())
    assert (cache / "ident3d" / "torchinductor").is_dir()
