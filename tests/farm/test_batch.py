"""Clusters that are begun for the run: Slurm's commands stand in a folder of ours, all else is real."""

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from farm.conftest import TINY, contents

from ident3d.cli import main
from ident3d.farm.render import render

pytestmark = pytest.mark.bpy

# what a batch system does with a job's script, on the very machine
SBATCH = """#!/bin/sh
grep -v '^#SBATCH' "$1" > {folder}/script.$$
setsid sh {folder}/script.$$ > {folder}/job.$$.log 2>&1 < /dev/null &
echo $! >> {folder}/jobs
echo $!
"""
SCANCEL = """#!/bin/sh
for job; do kill -KILL -$job; echo $job >> {folder}/cancelled; done
true
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the certificates of the run go
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    yield folder
    jobs = folder / "jobs"
    for job in jobs.read_text().split() if jobs.exists() else []:
        with suppress(ProcessLookupError):  # as it should be: the run has cancelled it
            os.killpg(int(job), signal.SIGKILL)


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own: dask-jobqueue closes its files when that ends. Killed, it cancels no jobs."""
    command = [sys.executable, "-m", "ident3d", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_slurm_jobs_render_and_are_cancelled_at_the_end(slurm: Path, tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    render(16, TINY, out=tmp_path / "here", workers=1, shard_size=4, show_progress=False)
    words = ["render", "--scene", TINY.world.scene, "--n", "16", "--size", "32", "--quality", "draft"]
    words += ["--shard-size", "4", "--out", str(tmp_path / "data"), "--cluster", "slurm", "--jobs", "2"]
    words += ["--cluster-option", f"python={sys.executable}", "--cluster-option", "interface=lo"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "data") == contents(tmp_path / "here")
    started, cancelled = ((slurm / name).read_text().split() for name in ("jobs", "cancelled"))
    assert len(started) == 2
    assert set(started) <= set(cancelled)
    script = next(slurm.glob("script.*")).read_text()
    assert "tls://127.0.0.1" in script
    assert "--nthreads 1" in script
    assert re.search(r"--local-directory \S+/ident3d-run-", script)
    assert "--no-dashboard --dashboard-address 127.0.0.1:0" in script


def test_ctrl_c_while_jobs_wait_cancels_them(slurm: Path, tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    words = ["render", "--n", "8", "--out", str(tmp_path / "data"), "--cluster", "slurm", "--jobs", "2"]
    words += ["--cluster-option", f"python={sys.executable}", "--cluster-option", "interface=lo"]
    with subprocess.Popen([sys.executable, "-m", "ident3d", *words], stderr=subprocess.PIPE, text=True) as client:
        assert client.stderr
        for line in client.stderr:
            if "No worker is there" in line:
                client.send_signal(signal.SIGINT)
                break
        else:
            pytest.fail("it ended before a job was waited for")
        error = client.stderr.read()
    assert client.returncode == 130, error
    assert "same command" in error
    assert set((slurm / "jobs").read_text().split()) == set((slurm / "cancelled").read_text().split())


@pytest.mark.parametrize(
    ("option", "fact"),
    [
        ("cors=1", "Did you mean 'cores'?"),
        ("cores=many", "SLURMCluster"),
        ("cores", "NAME=VALUE"),
    ],
)
def test_options_that_are_none(option: str, fact: str, slurm: Path, tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    words = ["render", "--n", "8", "--out", str(tmp_path / "data"), "--cluster", "slurm", "--jobs", "1"]
    done = run(*words, "--cluster-option", option)
    assert done.returncode == 2, done.stderr
    assert fact in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_jobs_that_are_not_taken(slurm: Path, tmp_path: Path) -> None:
    """All of them: the run ends with what sbatch said. Some of them: the others render."""
    pytest.importorskip("dask_jobqueue")
    refuse = "#!/bin/sh\necho 'sbatch: error: invalid partition specified' >&2\nexit 1\n"
    taken = (slurm / "sbatch").read_text()
    words = ["render", "--scene", TINY.world.scene, "--n", "8", "--size", "32", "--quality", "draft"]
    words += ["--out", str(tmp_path / "data"), "--cluster", "slurm", "--jobs", "2"]
    words += ["--cluster-option", f"python={sys.executable}", "--cluster-option", "interface=lo"]
    (slurm / "sbatch").write_text(refuse)
    done = run(*words)
    assert done.returncode == 2, done.stderr
    assert "invalid partition specified\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()
    once = f"mkdir {slurm}/once 2> /dev/null || {{ echo 'QOSMaxSubmitJobPerUserLimit' >&2; exit 1; }}\n"
    (slurm / "sbatch").write_text(taken.replace("#!/bin/sh\n", "#!/bin/sh\n" + once))
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 jobs" in done.stderr
    assert "QOSMaxSubmitJobPerUserLimit\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_its_package_the_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_kubernetes", None)
    (tmp_path / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    words = ["render", "--n", "8", "--out", str(tmp_path / "data"), "--cluster", "k8s", "--jobs", "2"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2, result.output
    assert "dask-kubernetes" in result.stderr
    assert "ident3d[cluster]" in result.stderr
