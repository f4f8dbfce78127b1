"""A finished shard is entered although the network fails for a moment; an error that stays ends the run at once."""

import errno
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from farm.test_faults import wait_for

from ident3d.bench.scale import Still
from ident3d.errors import UserError
from ident3d.farm import render
from ident3d.farm.local.embedded import embedded_cluster
from ident3d.farm.recipe import Recipe
from ident3d.farm.shard_jobs import ImagesDone, JobFailed, Note, run_jobs
from ident3d.farm.worker import ShardDone
from ident3d.loaders.folders.lifecycle import begin, plan
from ident3d.loaders.format import manifest
from ident3d.loaders.format.latents_source import source_of_seed
from ident3d.loaders.format.manifest import ShardEntry

ENTRY = ShardEntry("00000.h5", 0, 1, "0" * 64, 1, (0, 0, 0), (0, 0, 0))


class Network:
    """Enters shards in the folder, but first fails with each of these errors in turn."""

    def __init__(self, folder: Path, *errors: Exception) -> None:
        self.folder, self.errors, self.attempts = folder, list(errors), 0

    def enter(self, entry: ShardEntry) -> None:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        manifest.append_entry(self.folder, entry)


def test_a_run_outlives_a_moment_s_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "PAUSE_SECONDS", (0.01,))
    settings = Recipe(size=16, quality="draft").settings(source_of_seed(0, "train"))
    jobs = plan(begin(tmp_path, settings, 6, 2), [])
    network, notes, images = Network(tmp_path, TimeoutError("late"), OSError(errno.EIO, "lost")), list[str](), 0
    with embedded_cluster(1) as client:
        for event in run_jobs(client, jobs, tmp_path, settings, threads=1, studio_of=Still):
            match event:
                case ShardDone(entry):
                    render.with_retries(partial(network.enter, entry), entry.name, notes.append)
                case ImagesDone(change):
                    images += change
                case JobFailed() | Note():
                    pytest.fail(str(event))
    assert [entry.name for entry in manifest.read_entries(tmp_path)] == [job.name for job in jobs]
    assert network.attempts == len(jobs) + 2
    assert images == 6
    (note,) = notes
    assert "TimeoutError: late" in note


def test_a_run_that_is_closed_early_withdraws_its_jobs(tmp_path: Path) -> None:
    settings = Recipe(size=16, quality="draft").settings(source_of_seed(0, "train"))
    jobs = plan(begin(tmp_path, settings, 2000, 2), [])
    with embedded_cluster(1) as client:
        with closing(run_jobs(client, jobs, tmp_path, settings, threads=1, studio_of=Still)) as events:
            assert any(isinstance(event, ShardDone) for event in events)
            assert client.futures
        wait_for(lambda: not client.futures)
        wait_for(lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    assert len(list((tmp_path / "shards").iterdir())) < 100


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "full"), UserError("another took over")]
)
def test_what_does_not_pass_is_not_tried_again(error: Exception, tmp_path: Path) -> None:
    network = Network(tmp_path, error)
    with pytest.raises(type(error)) as raised:
        render.with_retries(partial(network.enter, ENTRY), ENTRY.name, pytest.fail)
    assert raised.value is error
    assert network.attempts == 1


def test_trouble_that_lasts_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "ENTER_SECONDS", 0.5)
    monkeypatch.setattr(render, "PAUSE_SECONDS", (0.01, 0.02))
    network, notes = Network(tmp_path, *(OSError(errno.EIO, "lost") for _ in range(1000))), list[str]()
    with pytest.raises(OSError, match="lost"):
        render.with_retries(partial(network.enter, ENTRY), ENTRY.name, notes.append)
    assert 2 < network.attempts < 100
    assert len(notes) == 1
