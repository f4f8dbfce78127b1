"""A scheduler and workers that are not ours: any may die at any moment, and the bytes stay those of one process."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from distributed import Client
from farm.conftest import SCENE, TINY, contents
from farm.daskprocesses import DaskProcesses
from farm.test_faults import wait_for, workers_of

from ident3d.bench.scale import Still
from ident3d.errors import UserError
from ident3d.farm import watchdog
from ident3d.farm.cluster import Cluster
from ident3d.farm.connect import connected
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.farm.render_shard import render_shard
from ident3d.farm.shard_jobs import ImagesDone, JobFailed, Note, run_jobs
from ident3d.farm.worker import ShardDone
from ident3d.loaders.folders.lifecycle import begin, plan
from ident3d.loaders.format import manifest
from ident3d.loaders.format.latents_source import source_of_seed

pytestmark = pytest.mark.bpy
PATIENCE = 300  # seconds, on a busy machine


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 images in shards of 4, by one process of this machine."""
    folder = tmp_path_factory.mktemp("reference") / "data"
    render(64, TINY, out=folder, workers=1, shard_size=4, show_progress=False)
    return folder


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[DaskProcesses]:
    with DaskProcesses(tmp_path / "dask") as processes:
        yield processes


def start(folder: Path, dask: DaskProcesses, *words: str) -> subprocess.Popen[str]:
    """``ident3d render`` as a process, on the cluster."""
    command = [sys.executable, "-m", "ident3d", "render", "--scene", SCENE, "--size", "32"]
    command += ["--quality", "draft", "--n", "64", "--shard-size", "4", "--out", str(folder)]
    wait_for(dask.file.exists)
    command += ["--scheduler", str(dask.file), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def entered(folder: Path) -> int:
    return len(manifest.read_entries(folder))


def states(client: Client) -> dict[str, str]:
    """What the scheduler says of each task, ours and others'."""
    tasks: dict[str, str] = client.run_on_scheduler(
        lambda dask_scheduler: {key: task.state for key, task in dask_scheduler.tasks.items()}
    )
    return tasks


def executing(client: Client) -> int:
    """How many tasks the workers are at."""
    return sum(client.run(lambda dask_worker: dask_worker.state.executing_count).values())


def written(folder: Path) -> dict[str, int]:
    """The finished shards and when each was written."""
    return {entry.name: (folder / "shards" / entry.name).stat().st_mtime_ns for entry in manifest.read_entries(folder)}


def test_worker_scheduler_and_client_are_killed_in_turn(reference: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with DaskProcesses(tmp_path / "first") as dask:
        victim, other = dask.add_worker(), dask.add_worker()
        client = start(folder, dask)
        wait_for(lambda: entered(folder) > 1)
        dask.kill(victim)
        survived = entered(folder)
        wait_for(lambda: entered(folder) > survived + 1)
        dask.kill(dask.scheduler)
        _, error = client.communicate(timeout=PATIENCE)
        assert client.returncode == 2
        assert "is lost" in error
        assert "Traceback" not in error
        other.wait(timeout=PATIENCE)  # it follows its scheduler, though Blender's own ending would wait for ever
    kept = written(folder)
    assert 0 < len(kept) < 16
    with DaskProcesses(tmp_path / "second") as dask:
        dask.add_worker()
        client = start(folder, dask)
        wait_for(lambda: entered(folder) > len(kept) + 1)
        client.kill()
        client.communicate()
        more = written(folder)
        client = start(folder, dask)
        out, error = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, error
    assert "64 images" in out
    assert contents(folder) == contents(reference)
    now = written(folder)
    assert {name: now[name] for name in kept} == kept
    assert {name: now[name] for name in more} == more
    assert len((folder / manifest.MANIFEST_FILE).read_text().splitlines()) == 16


def test_deaths_of_workers_are_no_failures_of_a_shard(reference: Path, tmp_path: Path) -> None:
    """On a scheduler that forgives no death, three workers die in turn."""
    folder = tmp_path / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
        dask = DaskProcesses(tmp_path / "dask")
    with dask:
        client = start(folder, dask)
        for _ in range(3):
            worker, before = dask.add_worker(), entered(folder)
            wait_for(lambda before=before: entered(folder) > before)
            dask.kill(worker)
        dask.add_worker()
        _, error = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, error
    assert contents(folder) == contents(reference)


def test_ctrl_c_takes_back_our_jobs_and_nothing_else(dask: DaskProcesses, tmp_path: Path) -> None:
    dask.add_worker()
    client = start(tmp_path / "data", dask, "--n", "100000", "--shard-size", "10000")
    with Client(scheduler_file=str(dask.file)) as other:
        wait_for(lambda: executing(other) == 1)
        theirs = other.submit(pow, 2, 10)
        wait_for(lambda: states(other).get(theirs.key) in ("queued", "processing"))
        assert theirs.status == "pending"
        client.send_signal(signal.SIGINT)
        _, error = client.communicate(timeout=PATIENCE)
        assert client.returncode == 130
        assert "same command" in error
        assert theirs.result(timeout=PATIENCE) == 1024  # the worker has left the long shard
        assert len(other.scheduler_info()["workers"]) == 1


def impostor(folder: Path) -> dict[str, str]:
    """Surroundings in which the installed ident3d has another version."""
    (folder / "ident3d-9.9.dist-info").mkdir(parents=True)
    (folder / "ident3d-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: ident3d\nVersion: 9.9\n")
    return {"PYTHONPATH": str(folder)}


def nowhere(folder: Path) -> dict[str, str]:
    """Surroundings without ident3d."""
    (folder / "ident3d").mkdir(parents=True)
    (folder / "ident3d" / "__init__.py").write_text("raise ImportError('No module named ident3d')")
    return {"PYTHONPATH": str(folder)}


def test_workers_that_must_not_render_are_refused(dask: DaskProcesses, tmp_path: Path) -> None:
    cases = [
        ({"environment": impostor(tmp_path / "a")}, [], "ident3d 9.9 instead of"),
        ({"environment": nowhere(tmp_path / "b")}, [], "cannot load ident3d"),
        ({"threads": 2}, [], "--nthreads 1"),
        ({}, ["--render-device", "hip"], "no hip GPU"),
    ]
    for options, words, fact in cases:
        worker = dask.add_worker("--resources", "GPU=1", **options)
        client = start(tmp_path / f"data{len(dask.workers)}", dask, *words)
        _, error = client.communicate(timeout=PATIENCE)
        dask.kill(worker)
        assert client.returncode == 2, error
        assert fact in error
        assert "Traceback" not in error


def test_a_job_on_a_gpu_waits_for_a_worker_that_has_one_and_says_so(dask: DaskProcesses, tmp_path: Path) -> None:
    heard, client = list[str](), start(tmp_path / "data", dask, "--render-device", "hip")
    listening = threading.Thread(target=lambda: heard.extend(client.stderr or ()))
    listening.start()
    wait_for(lambda: "`dask worker tcp://" in "".join(heard))
    dask.add_worker()
    wait_for(lambda: "None of the 1 workers has a GPU" in "".join(heard))
    assert "".join(heard).count("--nthreads 1 --resources GPU=1`.") == 2
    with Client(scheduler_file=str(dask.file)) as other:
        assert set(states(other).values()) == {"no-worker"}
    assert client.poll() is None
    dask.add_worker("--resources", "GPU=1")
    listening.join(PATIENCE)
    assert client.wait() == 2
    assert "no hip GPU" in heard[-1]
    client.communicate()


@pytest.mark.slow
def test_a_worker_that_hangs_is_restarted_by_its_nanny(dask: DaskProcesses, reference: Path, tmp_path: Path) -> None:
    folder, notes, stopped = tmp_path / "data", list[str](), list[int]()
    description = begin(folder, TINY.settings(source_of_seed(0, "train")), 64, 4)
    dask.add_worker()
    dask.add_worker()
    wait_for(dask.file.exists)

    jobs, settings = plan(description, []), description.settings
    with connected(Cluster(scheduler=str(dask.file)), 1) as client:
        client.wait_for_workers(2)
        for event in run_jobs(client, jobs, folder, settings, threads=1, stall_seconds=10, wait_forever=True):
            match event:
                case ShardDone(entry):
                    manifest.append_entry(folder, entry)
                case ImagesDone(change) if change > 0 and not stopped:
                    (worker,) = workers_of(dask.workers[0].pid)
                    stopped.append(worker.pid)
                    worker.suspend()
                case JobFailed(_, reason):
                    pytest.fail(reason)
                case Note(text):
                    notes.append(text)
    assert "is restarted" in notes[0]
    assert not psutil.pid_exists(stopped[0])
    assert manifest.read_entries(folder) == manifest.read_entries(reference)


@pytest.mark.slow
def test_workers_come_and_go_by_their_lifetime(dask: DaskProcesses, reference: Path, tmp_path: Path) -> None:
    for _ in range(2):
        dask.add_worker("--lifetime", "15", "--lifetime-stagger", "5", "--lifetime-restart")
    client = start(tmp_path / "data", dask, "--n", "640")
    _, error = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, error
    assert manifest.read_entries(tmp_path / "data")[:16] == manifest.read_entries(reference)


def test_a_scheduler_that_dies_while_it_is_asked_for_a_result_is_lost(dask: DaskProcesses, tmp_path: Path) -> None:
    settings = Recipe(size=16, quality="draft").settings(source_of_seed(0, "train"))
    jobs = plan(begin(tmp_path / "data", settings, 200, 2), [])
    dask.add_worker()
    wait_for(dask.file.exists)
    with connected(Cluster(scheduler=str(dask.file)), 1) as client:
        client.wait_for_workers(1)
        events = run_jobs(client, jobs, tmp_path / "data", settings, threads=1, studio_of=Still, wait_forever=True)
        with closing(events):
            assert any(isinstance(event, ShardDone) for event in events)
            # The other job of the worker ends meanwhile; its result is asked for when the scheduler stands still.
            wait_for(lambda: set(states(client).values()) == {"memory"})
            dask.scheduler.send_signal(signal.SIGSTOP)
            threading.Timer(1, dask.kill, [dask.scheduler]).start()
            with pytest.raises(UserError, match="is lost"):
                list(events)


def test_a_frozen_scheduler_counts_as_lost(
    dask: DaskProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SILENCE_SECONDS", 2)
    monkeypatch.setattr(watchdog, "POLL_SECONDS", 1)
    folder = tmp_path / "data"
    dask.add_worker()
    wait_for(dask.file.exists)

    def freeze() -> None:
        wait_for(lambda: entered(folder))
        os.kill(dask.scheduler.pid, signal.SIGSTOP)

    freezing = threading.Thread(target=freeze)
    freezing.start()
    with pytest.raises(UserError, match="is lost"):
        render(4000, TINY, out=folder, shard_size=4, cluster=Cluster(scheduler=str(dask.file)), show_progress=False)
    freezing.join()
    assert 0 < entered(folder) < 1000


def test_a_shard_finished_for_a_dead_client_is_adopted(dask: DaskProcesses, reference: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    begin(folder, TINY.settings(source_of_seed(0, "train")), 64, 4)
    for name in ("00000.h5", "00005.h5"):
        shutil.copy(reference / "shards" / name, folder / "shards" / name)
    before = {name: (folder / "shards" / name).stat().st_mtime_ns for name in ("00000.h5", "00005.h5")}
    dask.add_worker()
    client = start(folder, dask)
    _, error = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, error
    assert {name: (folder / "shards" / name).stat().st_mtime_ns for name in before} == before
    assert contents(folder) == contents(reference)


def test_a_late_worker_does_not_write_over_a_shard_that_has_grown(tmp_path: Path) -> None:
    """A job handed out for 6 images ends after another run has made the dataset one of 8."""
    settings = TINY.settings(source_of_seed(0, "train"))
    late = plan(begin(tmp_path / "data", settings, 6, 4), [])[1]
    begin(tmp_path / "data", settings, 8, 4)
    with pytest.raises(UserError, match="Another run"):
        render_shard(tmp_path / "data", settings, late, 1, 0, lambda done: None, studio_of=Still)
    assert not list((tmp_path / "data" / "shards").iterdir())
