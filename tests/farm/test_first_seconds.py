"""Workers that die while they start, few open files, little shared memory: all is rendered, or a sentence says why."""

import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from farm.conftest import contents
from farm.test_faults import start, workers_of

pytestmark = pytest.mark.bpy


def run_and_kill(folder: Path, *words: str, most: int, seconds: float) -> tuple[int, str, int]:
    """Run a render, and kill each of its first workers within so many seconds: exit code, output and kills."""
    process = start(folder, *words)
    due = dict[int, float]()
    killed = 0
    while process.poll() is None:
        for worker in workers_of(process.pid):
            if len(due) < most:
                due.setdefault(worker.pid, time.monotonic() + random.uniform(0, seconds))
        for pid, moment in list(due.items()):
            if moment < time.monotonic():
                due[pid] = float("inf")
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()
                    killed += 1
        time.sleep(0.01)
    return process.returncode, process.communicate()[1], killed


def test_workers_killed_in_their_first_moments_are_replaced(dataset64: Path, tmp_path: Path) -> None:
    code, error, killed = run_and_kill(tmp_path / "data", most=3, seconds=0.3)
    assert code == 0, error
    assert killed
    assert "Traceback" not in error
    assert contents(tmp_path / "data") == contents(dataset64)


@pytest.mark.slow
def test_a_storm_of_kills(dataset64: Path, tmp_path: Path) -> None:
    """40 runs, whose first one to four workers each die in their first three seconds."""
    kills = 0
    for number in range(40):
        folder = tmp_path / str(number)
        code, error, killed = run_and_kill(folder, most=random.choice([1, 1, 2, 4]), seconds=3)
        assert code == 0, error
        assert "Traceback" not in error
        assert contents(folder) == contents(dataset64)
        kills += killed
    print(f"{kills} kills in 40 runs")


def test_if_no_worker_ever_starts_the_run_ends_with_a_sentence(tmp_path: Path) -> None:
    code, error, killed = run_and_kill(tmp_path / "data", "--workers", "1", most=1000, seconds=0)
    assert killed == 3
    assert code == 2, error
    assert "3 attempts" in error.splitlines()[-1]
    assert "Traceback" not in error
    assert not (tmp_path / "data").exists()


def limited(folder: Path, limit: Callable[[], object] | None = None, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """Render one image under a limit; return exit code and what standard error has."""
    command = [*prefix, sys.executable, "-m", "ident3d", "render", "--n", "1", "--size", "32", "--quality", "draft"]
    command += ["--workers", "1", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, preexec_fn=limit)
    return done.returncode, done.stderr


@pytest.mark.parametrize("files", [12, 24])
def test_too_few_open_files_are_said(files: int, tmp_path: Path) -> None:
    code, error = limited(tmp_path / "data", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert code == 2, error
    assert f" {files} " in error
    assert "Traceback" not in error
    assert not (tmp_path / "data").exists()


def test_a_low_limit_that_may_be_raised_is_raised(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    code, error = limited(tmp_path / "data", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, hard)))
    assert code == 0, error


def test_too_little_shared_memory_is_said(tmp_path: Path) -> None:
    shell = ("unshare", "--mount", "sh", "-c")
    small = "mount -t tmpfs -o size=16k tmpfs /dev/shm && exec"
    if subprocess.run([*shell, f"{small} true"], capture_output=True, check=False).returncode:
        pytest.skip("another /dev/shm needs root and mount namespaces")
    code, error = limited(tmp_path / "data", prefix=(*shell, f'{small} "$@"', "sh"))
    assert code == 2, error
    assert "/dev/shm" in error
    assert "Traceback" not in error
    assert not (tmp_path / "data").exists()
