"""A run killed between any two of its writes: the same command goes on and ends with the same bytes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from farm.conftest import TINY, contents

from ident3d.errors import UserError
from ident3d.farm.render import render
from ident3d.loaders.folders.folder import is_dataset, open_folder
from ident3d.loaders.folders.lifecycle import begin
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.description import write_description

pytestmark = pytest.mark.bpy

# A client that dies, as by a power cut, just before its k-th write of a file, or removal of one.
DIE = """
import os, sys
from pathlib import Path
folder, n, fresh, k = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "fresh", int(sys.argv[4])
left = [k]
def before(function):
    def counted(*words, **options):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), 9)
        return function(*words, **options)
    return counted
for name in ("replace", "rename", "unlink", "mkdir", "fsync"):
    setattr(os, name, before(getattr(os, name)))
Path.unlink, Path.mkdir = before(Path.unlink), before(Path.mkdir)
from ident3d import Recipe, render
render(n, Recipe(size=32, quality="draft"), out=folder, workers=1, fresh=fresh, shard_size=16, show_progress=False)
"""


def die(folder: Path, n: int, k: int, *, fresh: bool = False) -> bool:
    """Render, but die before the k-th write; whether it came to that."""
    words = [str(folder), str(n), "fresh" if fresh else "continue", str(k)]
    done = subprocess.run([sys.executable, "-c", DIE, *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.fixture(scope="module")
def dataset24(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset24") / "data"
    render(24, TINY, out=folder, workers=1, shard_size=16, show_progress=False)
    return folder


def test_killed_again_and_again_each_time_a_write_later(dataset24: Path, tmp_path: Path) -> None:
    """Each run goes on with what the one before left, and dies before its k-th write, k = 1, 2, …, until one ends."""
    k = 0
    while die(tmp_path / "data", 24, k := k + 1):
        assert k < 200
    assert k > 5
    assert contents(tmp_path / "data") == contents(dataset24)
    assert verify(tmp_path / "data", show_progress=False).sound


@pytest.mark.parametrize("k", range(2, 20, 6))
def test_killed_in_a_first_run(k: int, dataset24: Path, tmp_path: Path) -> None:
    die(tmp_path / "data", 24, k)
    render(24, TINY, out=tmp_path / "data", workers=1, shard_size=16, show_progress=False)
    assert contents(tmp_path / "data") == contents(dataset24)


@pytest.mark.parametrize("k", range(1, 24, 4))
def test_killed_while_growing(k: int, dataset24: Path, dataset64: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset24, tmp_path / "data")
    die(tmp_path / "data", 64, k)
    assert render(64, TINY, out=tmp_path / "data", workers=1, show_progress=False).complete
    assert contents(tmp_path / "data") == contents(dataset64)


def test_killed_while_fresh_deletes(dataset24: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset24, tmp_path / "data")
    k = 1
    while is_dataset(tmp_path / "data") and k < 20:
        assert die(tmp_path / "data", 24, k, fresh=True)
        k += 1
    render(24, TINY, out=tmp_path / "data", workers=1, fresh=True, shard_size=16, show_progress=False)
    assert contents(tmp_path / "data") == contents(dataset24)


def test_a_grown_shard_that_was_never_entered_is_adopted(dataset24: Path, dataset64: Path, tmp_path: Path) -> None:
    """Killed after the longer shard has taken the shorter one's name, before the manifest knows."""
    shutil.copytree(dataset24, tmp_path / "data")
    shutil.copy(dataset64 / "shards/00001.h5", tmp_path / "data/shards/00001.h5")
    assert render(64, TINY, out=tmp_path / "data", workers=1, show_progress=False).complete
    assert contents(tmp_path / "data") == contents(dataset64)


def test_a_lost_shard_of_a_complete_dataset_is_rendered_again(dataset24: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset24, tmp_path / "data")
    (tmp_path / "data/shards/00001.h5").unlink()
    done = render(24, TINY, out=tmp_path / "data", workers=1, show_progress=False)
    assert (done.complete, done.rendered) == (True, 8)
    assert contents(tmp_path / "data") == contents(dataset24)


def test_repair_waits_for_no_run_and_disturbs_none(dataset24: Path, tmp_path: Path) -> None:
    """A repair is refused while a render holds the folder, before it has looked at anything."""
    folder = tmp_path / "data"
    words = ["render", "--n", "4000", "--size", "32", "--quality", "draft", "--out", str(folder), "--workers", "1"]
    process = subprocess.Popen([sys.executable, "-m", "ident3d", *words], stderr=subprocess.DEVNULL)
    with process:
        end = time.monotonic() + 60
        while not (folder / "shards.jsonl").exists() and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(UserError, match=f"process {process.pid}"):
            verify(folder, repair=True, show_progress=False)
        process.terminate()


def test_a_damaged_copy_of_the_latents_costs_no_shard(dataset24: Path, tmp_path: Path) -> None:
    import numpy as np

    raw = np.linspace(-1, 1, 240, dtype=np.float32).reshape(24, 10)
    np.save(tmp_path / "mine.npy", raw)
    folder, options = tmp_path / "data", {"latents": tmp_path / "mine.npy", "workers": 1, "show_progress": False}
    render(None, TINY, out=folder, **options)
    before = contents(folder)
    data = bytearray((folder / "latents.npy").read_bytes())
    data[-1] ^= 1
    (folder / "latents.npy").write_bytes(data)
    found = verify(folder, repair=True, show_progress=False)
    assert [problem.shard for problem in found.problems] == [None]
    assert found.good == 24
    assert render(None, TINY, out=folder, **options).rendered == 0
    assert contents(folder) == before


@pytest.mark.parametrize("seconds", [0.6, 1.0, 1.4, 1.8])
def test_ctrl_c_while_the_cluster_starts_is_quiet(seconds: float, tmp_path: Path) -> None:
    words = ["render", "--n", "4000", "--size", "32", "--quality", "draft", "--out", str(tmp_path / "data")]
    process = subprocess.Popen(
        [sys.executable, "-m", "ident3d", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_n_may_return_to_what_is_finished(dataset24: Path, tmp_path: Path) -> None:
    """A run that asked for too much can be called off."""
    folder = tmp_path / "data"
    shutil.copytree(dataset24, folder)
    begin(folder, open_folder(folder).description.settings, 4000)
    with pytest.raises(UserError, match="23"):
        render(20, TINY, out=folder, show_progress=False)
    assert render(24, TINY, out=tmp_path / "data", workers=1, show_progress=False).complete
    assert contents(tmp_path / "data") == contents(dataset24)


def test_other_versions_than_the_folder_s_are_refused(dataset24: Path, tmp_path: Path) -> None:
    """A folder begun with another Blender is not continued with this one."""
    shutil.copytree(dataset24, tmp_path / "data")
    description = open_folder(tmp_path / "data").description
    older = description.settings | {"versions": description.settings["versions"] | {"bpy": "4.5.0"}}
    write_description(tmp_path / "data", replace(description, settings=older))
    with pytest.raises(UserError, match=r"versions\.bpy: 4\.5\.0"):
        render(64, TINY, out=tmp_path / "data", show_progress=False)
