"""What a run on a batch system must withstand, written once for every system that the tests can start."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from farm.batchsystems import BatchSystem, kill, wait_for
from farm.conftest import SCENE, contents

from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.latents.worlds import World
from ident3d.loaders.format import manifest

PATIENCE = 300  # seconds, on a busy machine
MARK = "No worker is there"


class Run:
    """``ident3d render --cluster`` as a process of its own, which has HOME and working folder below `folder`."""

    def __init__(self, system: BatchSystem, folder: Path, *words: str, n: int = 64, jobs: int = 2) -> None:
        home = folder / "home"
        home.mkdir(exist_ok=True)
        self.system, self.data, self.cache = system, folder / "data", home / "cache"
        command = [sys.executable, "-m", "ident3d", "render", "--scene", SCENE, "--n", str(n), "--size", "16"]
        command += ["--quality", "draft", "--shard-size", "4", "--out", str(self.data)]
        command += ["--cluster", system.name, "--jobs", str(jobs), "--cluster-option", "interface=lo", *words]
        self.log = (folder / f"client-{len(list(folder.glob('client-*')))}.log").open("w+b")
        surroundings = os.environ | system.environment | {"HOME": str(home), "XDG_CACHE_HOME": str(self.cache)}
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=surroundings, cwd=home)

    @property
    def output(self) -> str:
        """All that it has printed so far."""
        return Path(self.log.name).read_text().replace("\r", "\n")

    def entered(self) -> int:
        """How many shards the manifest has."""
        return len(manifest.read_entries(self.data)) if (self.data / "dataset.json").exists() else 0

    def written(self) -> dict[str, int]:
        """The shards of the manifest, and when each was written."""
        shards = [self.data / "shards" / entry.name for entry in manifest.read_entries(self.data)]
        return {shard.name: shard.stat().st_mtime_ns for shard in shards}

    def wait_for_shards(self, more_than: int = 0) -> None:
        wait_for(lambda: self.entered() > more_than or self.process.poll() is not None, PATIENCE, "a shard")
        assert self.process.poll() is None, self.output

    def finish(self) -> int:
        """Wait until it has ended and no job of it is in the queue; return its exit code."""
        code = self.process.wait(timeout=PATIENCE)
        wait_for(lambda: not self.system.jobs(), 60, "an empty queue")
        assert "Traceback" not in self.output
        return code

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.finish()

    def secrets(self) -> list[Path]:
        """The files of certificates that lie in the cache folder."""
        return [file for file in self.cache.rglob("*") if file.is_file()]


class RealJobs:
    """The tests; a class for each system says with which options a job is asked for, and which can never start."""

    plain: tuple[str, ...] = ()  # the site's options: queue, walltime, …
    script: tuple[str, ...] = ()  # what these options must have made of the job's script
    never: tuple[str, ...] = ()  # options of a job that waits for ever
    reason = ""  # what the system says of it
    refused = ""  # what it says of a queue that there is not

    @pytest.fixture
    def run(self, system: BatchSystem, tmp_path: Path) -> Iterator[list[Run]]:
        """Runs to be ended with the test, and their jobs."""
        runs = list[Run]()
        yield runs
        for run in runs:
            run.process.kill()
            run.process.wait()
            run.log.close()
        system.release_queue()
        system.clear()

    @pytest.fixture(scope="class")
    @classmethod
    def reference(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """The same 64 images by one process of this machine."""
        folder = tmp_path_factory.mktemp("reference") / "data"
        recipe = Recipe(World(SCENE), size=16, quality="draft")
        render(64, recipe, out=folder, workers=1, shard_size=4, show_progress=False)
        return folder

    def start(self, run: list[Run], system: BatchSystem, folder: Path, *words: str, **kwargs: int) -> Run:
        run.append(Run(system, folder, *self.plain, *words, **kwargs))
        return run[-1]

    def test_the_bytes_are_those_of_one_process(
        self, run: list[Run], system: BatchSystem, reference: Path, tmp_path: Path
    ) -> None:
        """With all that a site wants said, and nothing left behind: no job, no key."""
        shared, logs = tmp_path / "shared", tmp_path / "logs"
        shared.mkdir(mode=0o700)
        words = ["--cluster-option", f"shared_temp_directory={shared}", "--cluster-option", f"log_directory={logs}"]
        render = self.start(run, system, tmp_path, *words)
        wait_for(lambda: len(system.running()) == 2 or render.process.poll() is not None, PATIENCE, "two jobs")
        facts = " ".join(system.facts(job) for job in system.running())
        for fact in self.script:
            assert fact in facts
        (private,) = shared.iterdir()
        assert private.stat().st_mode & 0o777 == 0o700
        assert render.secrets() == []
        assert render.finish() == 0, render.output
        assert contents(render.data) == contents(reference)
        assert not list(shared.iterdir())
        assert f"Local Directory: {private}" in "".join(log.read_text() for log in logs.iterdir())

    def test_a_cancelled_job_is_replaced(
        self, run: list[Run], system: BatchSystem, reference: Path, tmp_path: Path
    ) -> None:
        """The only one: without another the run could not end."""
        render = self.start(run, system, tmp_path, jobs=1)
        render.wait_for_shards()
        (job,) = system.running()
        system.cancel(job)
        assert render.finish() == 0, render.output
        assert contents(render.data) == contents(reference)

    def test_killed_processes_are_replaced(
        self, run: list[Run], system: BatchSystem, reference: Path, tmp_path: Path
    ) -> None:
        """First the one that renders, which its nanny starts again in the same job; then all that the job has."""
        render = self.start(run, system, tmp_path, jobs=1)
        render.wait_for_shards()
        (job,) = system.running()
        workers = [pid for pid in system.pids(job) if "spawn_main" in " ".join(psutil.Process(pid).cmdline())]
        assert workers
        kill(workers)
        render.wait_for_shards(render.entered() + 1)
        assert system.running() == [job]
        kill(system.pids(job))
        assert render.finish() == 0, render.output
        assert contents(render.data) == contents(reference)

    def test_jobs_cancelled_while_they_wait_are_asked_for_again(
        self, run: list[Run], system: BatchSystem, reference: Path, tmp_path: Path
    ) -> None:
        system.hold_queue()
        render = self.start(run, system, tmp_path)
        wait_for(lambda: len(system.jobs()) == 2, PATIENCE, "two jobs")
        system.cancel(*system.jobs())
        wait_for(lambda: not system.jobs(), 60, "an empty queue")
        system.release_queue()
        assert render.finish() == 0, render.output
        assert contents(render.data) == contents(reference)
        assert "ended before" in render.output

    def test_processes_are_renewed_by_their_lifetime(
        self, run: list[Run], system: BatchSystem, reference: Path, tmp_path: Path
    ) -> None:
        """A job whose worker ends is replaced by another job."""
        words = ["--cluster-option", 'worker_extra_args=["--lifetime", "4s"]']
        render = self.start(run, system, tmp_path, *words, n=100_000, jobs=1)
        render.wait_for_shards()
        (first,) = system.running()
        wait_for(lambda: set(system.running()) - {first}, PATIENCE, "another job")
        render.wait_for_shards(max(render.entered(), 16))
        assert render.interrupt() == 130, render.output
        assert manifest.read_entries(render.data)[:16] == manifest.read_entries(reference)

    def test_ctrl_c_cancels_the_jobs_and_the_same_command_goes_on(
        self, run: list[Run], system: BatchSystem, reference: Path, tmp_path: Path
    ) -> None:
        render = self.start(run, system, tmp_path)
        render.wait_for_shards()
        assert render.interrupt() == 130, render.output
        assert "same command" in render.output
        kept = render.written()
        assert 0 < len(kept) < 16
        assert not render.secrets()
        again = self.start(run, system, tmp_path)
        assert again.finish() == 0, again.output
        assert kept.items() <= again.written().items()
        assert contents(again.data) == contents(reference)

    def test_a_job_that_never_starts_is_said_to_wait_for_what(
        self, run: list[Run], system: BatchSystem, tmp_path: Path
    ) -> None:
        render = self.start(run, system, tmp_path, *self.never)
        wait_for(lambda: self.reason in render.output or render.process.poll() is not None, PATIENCE, self.reason)
        assert MARK in render.output
        assert render.interrupt() == 130, render.output
        assert render.output.count(MARK) <= 2

    def test_jobs_that_end_at_once_end_the_run(self, run: list[Run], system: BatchSystem, tmp_path: Path) -> None:
        render = self.start(run, system, tmp_path, "--cluster-option", "python=/nowhere/python", jobs=1)
        assert render.finish() == 2, render.output
        assert re.search(r"ended before .* log", render.output)

    def test_a_queue_that_there_is_not(self, run: list[Run], system: BatchSystem, tmp_path: Path) -> None:
        render = self.start(run, system, tmp_path, "--cluster-option", "queue=nowhere")
        assert render.finish() == 2, render.output
        assert self.refused in render.output
        assert not render.data.exists()

    def test_jobs_end_with_a_client_that_is_killed(
        self, run: list[Run], system: BatchSystem, reference: Path, tmp_path: Path
    ) -> None:
        """Its key goes with the next run."""
        render = self.start(run, system, tmp_path)
        render.wait_for_shards()
        render.process.kill()
        render.process.wait()
        assert render.secrets()
        wait_for(lambda: not system.jobs(), 60, "an empty queue")
        again = self.start(run, system, tmp_path)
        assert again.finish() == 0, again.output
        assert contents(again.data) == contents(reference)
        assert not again.secrets()

    def test_jobs_that_begin_after_their_client_was_killed_end_too(
        self, run: list[Run], system: BatchSystem, tmp_path: Path
    ) -> None:
        system.hold_queue()
        render = self.start(run, system, tmp_path)
        wait_for(lambda: len(system.jobs()) == 2, PATIENCE, "two jobs")
        render.process.kill()
        render.process.wait()
        system.release_queue()
        wait_for(lambda: len(system.running()) == 2, PATIENCE, "two jobs that run")
        wait_for(lambda: not system.jobs(), 120, "an empty queue")
