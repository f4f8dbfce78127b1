"""Killed workers, killed runs, full disks, damaged files: nothing is lost unnoticed, and one more render mends all."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from distributed import KilledWorker
from farm.conftest import SCENE, TINY, contents

from ident3d.errors import UserError
from ident3d.farm.local.embedded import embedded_cluster
from ident3d.farm.render import render
from ident3d.farm.shard_jobs import FailureCount, ImagesDone, JobFailed, Note, run_jobs
from ident3d.farm.worker import ShardDone
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.lifecycle import Job, begin, plan
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format import manifest
from ident3d.loaders.format.latents_source import source_of_seed

pytestmark = pytest.mark.bpy
COMMAND = [sys.executable, "-m", "ident3d", "render", "--size", "32", "--quality", "draft", "--shard-size", "16"]


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "--scene", SCENE, "--n", "64", "--workers", "2", "--out", str(folder), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: subprocess.Popen[str]) -> int:
    """Wait for the run to end; its exit code."""
    process.communicate(timeout=120)
    return process.returncode


def workers_of(pid: int) -> list[psutil.Process]:
    """The worker processes below a client: spawned children that are not the resource tracker."""
    found = []
    with suppress(psutil.NoSuchProcess):  # any of them may end while we look
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found += [child] if "spawn_main" in " ".join(child.cmdline()) else []
    return found


def wait_for(condition, seconds: float = 300) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_a_killed_worker_is_replaced_and_its_shard_rendered_again(dataset64: Path, tmp_path: Path) -> None:
    process = start(tmp_path / "data")
    wait_for(lambda: manifest.read_entries(tmp_path / "data"))
    victim = random.choice(workers_of(process.pid))
    victim.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "complete: 64 images" in out
    assert contents(tmp_path / "data") == contents(dataset64)


def test_a_killed_run_is_continued_to_the_same_bytes(dataset64: Path, tmp_path: Path) -> None:
    """SIGKILL at a random moment after the start of rendering, twice; finished shards are not made again."""
    hits = 0
    for _ in range(2):
        process = start(tmp_path / "data")
        wait_for(lambda process=process: len(workers_of(process.pid)) == 2 or process.poll() is not None)
        time.sleep(random.uniform(0.1, 1))
        hits += process.poll() is None
        children = workers_of(process.pid)
        process.kill()
        process.communicate()
        wait_for(lambda children=children: not any(child.is_running() for child in children), 20)
    assert hits, "the run was over before it could be killed"
    kept = {
        entry.name: (tmp_path / "data/shards" / entry.name).stat().st_mtime_ns
        for entry in manifest.read_entries(tmp_path / "data")
    }
    assert finish(start(tmp_path / "data")) == 0
    assert kept == {name: (tmp_path / "data/shards" / name).stat().st_mtime_ns for name in kept}
    assert contents(tmp_path / "data") == contents(dataset64)


def test_a_shard_written_but_not_entered_is_adopted(dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    description = open_folder(folder).description
    lines = (folder / manifest.MANIFEST_FILE).read_text().splitlines(keepends=True)
    (folder / "dataset.json").unlink()
    moved = tmp_path / "shards"
    (folder / "shards").rename(moved)
    for file in ("shards.jsonl", "all_latents.npy", "README.md", "sample.png", "provenance.json"):
        (folder / file).unlink()
    begin(folder, description.settings, 64, 16)
    (folder / "shards").rmdir()
    moved.rename(folder / "shards")
    (folder / manifest.MANIFEST_FILE).write_text(lines[0] + lines[1][:40])  # killed while it entered the second
    assert render(64, TINY, out=folder, workers=1, show_progress=False).rendered == 0
    assert contents(folder) == contents(dataset64)


def test_a_shard_that_keeps_failing_is_reported_and_the_others_are_rendered(dataset64: Path, tmp_path: Path) -> None:
    """A folder stands where the third shard should go, so that it cannot be written."""
    obstacle = tmp_path / "data/shards/00002.h5"
    begin(tmp_path / "data", TINY.settings(source_of_seed(0, "train")), 64, 16)
    (obstacle / "in the way").mkdir(parents=True)
    process = start(tmp_path / "data")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Shard 00002.h5 (images 32-47) failed: IsADirectoryError" in err
    assert [entry.first for entry in manifest.read_entries(tmp_path / "data")] == [0, 16, 48]
    assert open_folder(tmp_path / "data").description.complete is False
    shutil.rmtree(obstacle)
    assert finish(start(tmp_path / "data")) == 0
    assert contents(tmp_path / "data") == contents(dataset64)


def test_a_shard_whose_workers_end_says_so_in_our_words() -> None:
    """Dask gives a job up after each third death, and so do we after the second time."""
    job, failures, worker = Job("00003.h5", 24, 8), FailureCount(finished=1), SimpleNamespace(address="tls://a")
    killed = KilledWorker("ident3d-1", worker, 2)  # type: ignore[arg-type]
    assert failures.should_retry(job, killed)
    assert not failures.should_retry(job, killed)
    assert re.match("its worker process ended 6 times: .* memory", failures.reason(job, killed))
    failures.finished = 0
    with pytest.raises(UserError, match="9 times and no shard was finished"):
        failures.should_retry(job, killed)


def test_a_stuck_worker_is_restarted_while_the_other_goes_on(dataset64: Path, tmp_path: Path) -> None:
    """There are more jobs than the run will need: it ends once the worker is replaced and the first shards are in."""
    folder, notes, stopped, meanwhile = tmp_path / "data", list[str](), list[int](), list[str]()
    description = begin(folder, TINY.settings(source_of_seed(0, "train")), 16_000, 16)
    due = {entry.name: entry.sha256 for entry in manifest.read_entries(dataset64)}
    missing = set(due)

    with embedded_cluster(2) as client:
        before = {worker.pid for worker in workers_of(os.getpid())}
        jobs, settings = plan(description, []), description.settings
        # a loaded machine needs seconds to load Blender
        with closing(run_jobs(client, jobs, folder, settings, threads=1, stall_seconds=15)) as events:
            for event in events:
                match event:
                    case ImagesDone(change) if change > 0 and not stopped:
                        victim = workers_of(os.getpid())[0]
                        victim.suspend()
                        stopped.append(victim.pid)
                    case Note(text):
                        notes.append(text)
                    case JobFailed(_, reason):
                        pytest.fail(reason)
                    case ShardDone(entry):
                        manifest.append_entry(folder, entry)
                        missing.discard(entry.name)
                        now = {worker.pid for worker in workers_of(os.getpid())}
                        if stopped and stopped[0] in now:
                            meanwhile.append(entry.name)
                        elif not missing and len(now) == len(before) and now != before:
                            break
        after = {worker.pid for worker in workers_of(os.getpid())}
    assert before - after == set(stopped), "the other worker was replaced too"
    assert len(notes) == 1
    assert "is restarted" in notes[0]
    assert meanwhile, "nothing was entered while one worker was stuck"
    found = {entry.name: entry.sha256 for entry in manifest.read_entries(folder)}
    assert {name: found[name] for name in due} == due


def test_ctrl_c_stops_within_seconds_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = start(tmp_path / "data", "--n", "4000")
    wait_for(lambda: manifest.read_entries(tmp_path / "data"))
    # A worker that is killed while it writes leaves such a file.
    (tmp_path / "data" / "shards" / ".partial-killed").touch()
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # a terminal's Ctrl-C reaches the workers too
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begun < 25  # a render would take minutes
    assert process.returncode == 130
    assert "same command" in err
    assert "Traceback" not in err
    assert not list((tmp_path / "data").rglob(".partial-*"))


def test_a_second_run_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    first = start(tmp_path / "data", "--n", "4000")
    wait_for((tmp_path / "data" / "dataset.json").exists)
    second = start(tmp_path / "data", "--n", "4000")
    _, err = second.communicate(timeout=30)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=30)
    assert second.returncode == 2
    assert f"process {first.pid}" in err
    assert err.count("\n") == 1


@contextmanager
def disk_of(kilobytes: int, mount: Path) -> Iterator[Path]:
    """A file system of so many kilobytes."""
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(mount)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_ends_the_run_with_a_sentence_and_loses_nothing(dataset64: Path, tmp_path: Path) -> None:
    """Too small by more and more pages, so that the disk is full for a shard, the manifest, the card, the totals."""
    used = sum(-(-file.stat().st_size // 4096) * 4 for file in dataset64.rglob("*") if file.is_file())
    sentences = set()
    for kilobytes in range(used - 40, used + 8, 12):
        with disk_of(kilobytes, tmp_path / f"disk{kilobytes}") as disk:
            process = start(disk / "data", "--n", "64")
            _, err = process.communicate(timeout=120)
            if process.returncode:
                assert process.returncode == 2, err
                assert "Traceback" not in err
                sentences.add(re.sub(r"disk\d+", "disk", err.splitlines()[-1]))
            assert not list(disk.rglob(".partial-*"))
            subprocess.run(["mount", "-o", "remount,size=30m", str(disk)], check=True)
            assert finish(start(disk / "data")) == 0
            assert contents(disk / "data") == contents(dataset64)
    assert sentences
    assert all(re.search(rf"{re.escape(str(tmp_path))}/disk.* (full|free)", sentence) for sentence in sentences)


def test_a_run_that_cannot_fit_is_refused_before_anything_is_written(dataset64: Path, tmp_path: Path) -> None:
    with disk_of(1000, tmp_path / "disk") as disk:
        with pytest.raises(UserError, match=r"GB free"):
            render(20_000, TINY, out=disk / "data", show_progress=False)
        shutil.copytree(dataset64, disk / "other")
        with pytest.raises(UserError, match=r"GB free"):
            render(20_000, TINY, out=disk / "other", show_progress=False)
        assert contents(disk / "other") == contents(dataset64)
        assert render(64, TINY, out=disk / "other", show_progress=False).rendered == 0


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)


def truncate(file: Path) -> None:
    os.truncate(file, random.randrange(file.stat().st_size))


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, Path.unlink])
def test_damage_is_found_repaired_and_rendered_again(damage, dataset64: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    assert verify(folder, show_progress=False).sound
    damage(folder / "shards/00002.h5")
    found = verify(folder, show_progress=False)
    assert [problem.shard for problem in found.problems] == ["00002.h5"]
    assert found.good == 48
    assert verify(folder, repair=True, show_progress=False).repaired
    assert verify(folder, show_progress=False).missing == 16
    assert render(64, TINY, out=folder, workers=1, show_progress=False).rendered == 16
    assert verify(folder, show_progress=False).sound
    assert contents(folder) == contents(dataset64)


@pytest.mark.parametrize("file", ["dataset.json", "shards.jsonl"])
def test_damage_to_the_manifest_is_found_and_repaired(file: str, dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace("1", "7", 1))
    with pytest.raises(UserError):
        open_folder(folder)
    assert verify(folder, show_progress=False).problems
    verify(folder, repair=True, show_progress=False)
    assert render(64, TINY, out=folder, workers=1, shard_size=16, show_progress=False).complete
    assert contents(folder) == contents(dataset64)


@pytest.mark.parametrize("lose", ["emptied", "gone", "flipped"])
def test_a_lost_manifest_is_rebuilt_by_the_same_command(lose: str, dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    lines = (folder / "shards.jsonl").read_text()
    match lose:
        case "emptied":
            (folder / "shards.jsonl").write_text("")
        case "gone":
            (folder / "shards.jsonl").unlink()
        case "flipped":
            (folder / "shards.jsonl").write_text(lines.replace('"count": 16', '"count": 17', 1))
    with pytest.warns(UserWarning, match=r"shards\.jsonl"):
        done = render(64, TINY, out=folder, workers=2, show_progress=False)
    assert (done.rendered, done.complete) == (0, True)
    assert contents(folder) == contents(dataset64)
    assert verify(folder, show_progress=False).sound


def test_a_run_without_its_shards_folder_goes_on(dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    shutil.rmtree(folder / "shards")
    assert render(64, TINY, out=folder, workers=2, show_progress=False).rendered == 64
    assert contents(folder) == contents(dataset64)


def test_a_manifest_without_a_description_is_not_mixed_with_other_settings(dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    (folder / "dataset.json").unlink()
    before = contents(folder)
    with pytest.raises(UserError, match=r"seed"):
        render(64, replace(TINY, seed=1), out=folder, shard_size=16, show_progress=False)
    assert contents(folder) == before


@pytest.mark.parametrize("lost", ["README.md", "sample.png", "provenance.json"])
def test_a_lost_card_or_provenance_is_noticed_and_remade(lost: str, dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    before = contents(folder)
    (folder / lost).unlink()
    (found,) = verify(folder, show_progress=False).problems
    assert lost in found.what
    with pytest.warns(UserWarning, match=re.escape(lost)):
        assert render(64, TINY, out=folder, show_progress=False).rendered == 0
    assert verify(folder, show_progress=False).sound
    assert contents(folder) == before


@pytest.mark.parametrize("hurt", ["README.md", "sample.png", "provenance.json"])
def test_a_damaged_card_or_provenance_is_set_aside_and_remade(hurt: str, dataset64: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(dataset64, folder)
    before = contents(folder)
    flip_a_bit(folder / hurt)
    damaged = (folder / hurt).read_bytes()
    found = verify(folder, repair=True, delete=True, show_progress=False)
    assert [hurt in problem.what for problem in found.problems] == [True]
    (aside,) = folder.glob("removed-*")
    assert (aside / hurt).read_bytes() == damaged
    shutil.rmtree(aside)
    with pytest.warns(UserWarning, match=re.escape(hurt)):
        render(64, TINY, out=folder, show_progress=False)
    assert verify(folder, show_progress=False).sound
    assert contents(folder) == before


def test_a_run_killed_before_its_record_has_recorded_itself(dataset64: Path, tmp_path: Path) -> None:
    """Killed between its last shard and its record: the history knows of it, and of the run that closed the folder."""
    process = start(tmp_path / "data")
    wait_for(lambda: len(manifest.read_entries(tmp_path / "data")) >= 1)
    process.kill()
    process.communicate()
    (run,) = json.loads((tmp_path / "data/provenance.json").read_text())["runs"]
    assert (run["ended"], bool(run["host"])) == (None, True)
    assert finish(start(tmp_path / "data")) == 0
    first, second = json.loads((tmp_path / "data/provenance.json").read_text())["runs"]
    assert first == run
    assert second["ended"] is not None
    assert second["images"] < 64
    assert verify(tmp_path / "data", show_progress=False).sound
