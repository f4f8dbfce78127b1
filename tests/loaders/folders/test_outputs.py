"""What a run writes to: once another run has taken over, and on the workers."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

import numpy as np
import pytest
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.lifecycle import Job, begin, plan
from ident3d.loaders.folders.output import hold_output
from ident3d.loaders.folders.provenance import PROVENANCE_FILE
from ident3d.loaders.folders.store_transfer import scratch_for_job
from ident3d.loaders.format import manifest
from ident3d.loaders.format.description import DATASET_FILE, SHARDS, read_description
from ident3d.loaders.format.files import sha256_of_file
from ident3d.loaders.format.latents_source import LATENTS_FILE, copy_is_sound, npy_bytes, source_of_copy
from ident3d.loaders.stores.cache import manifest_of
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.store import Store
from ident3d.loaders.stores.store_lease import lease_on_store


def uploaded(folder: Path) -> Store:
    """A store in memory that holds the folder's files."""
    store = Store(f"memory://{token_hex(8)}/data")
    for file in folder.rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(folder)), file.read_bytes())
    return store


def test_a_run_that_lost_its_folder_enters_no_more_shards(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "data", 24, finished=False)
    opened = open_folder(folder)
    before = (folder / manifest.MANIFEST_FILE).read_bytes()
    with hold_output(folder) as output:
        output.record(datetime.now(UTC), images=0)
        (folder / PROVENANCE_FILE).unlink()  # it was written while the folder was ours
    with (
        hold_output(folder) as output,
        lease(folder, lapse_seconds=0),
    ):  # the other came after a long pause of the first
        with pytest.raises(UserError, match="took over"):
            output.enter(opened.entries[0])
        with pytest.raises(UserError, match="took over"):
            output.finish(opened.description, opened.entries)
        output.record(datetime.now(UTC))
        assert not (folder / PROVENANCE_FILE).exists()
    assert (folder / manifest.MANIFEST_FILE).read_bytes() == before
    assert open_folder(folder).description == opened.description


def test_a_run_that_lost_its_store_enters_no_more_shards(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    folder = make_dataset(tmp_path / "data", 24, finished=False)
    opened = open_folder(folder)
    store = uploaded(folder)
    described = store.get(DATASET_FILE)
    with hold_output(store) as output:
        output.resume(opened.description, list(opened.entries))
        output.enter(opened.entries[0])
        before = manifest_of(store, complete=False)
        with lease_on_store(store, lapse_seconds=0):
            output.record(datetime.now(UTC))
            for step in (
                lambda: output.resume(opened.description, list(opened.entries)),
                lambda: output.enter(opened.entries[1]),
            ):
                with pytest.raises(UserError, match="took over"):
                    step()
            with pytest.raises(UserError, match="took over"):
                output.finish(opened.description, opened.entries)
    assert manifest_of(store, complete=False) == before
    assert store.get(DATASET_FILE) == described
    assert store.get(PROVENANCE_FILE) is None


def test_what_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file cannot be written: File exists"), hold_output(tmp_path / "file"):
        pass


def test_of_a_lost_manifest_s_shards_one_at_a_time_is_at_hand(tmp_path: Path) -> None:
    """However large the dataset is, the client's disk holds one of its shards."""
    pytest.importorskip("fsspec")
    folder = make_dataset(tmp_path / "data", 24, finished=False)
    entries = manifest.read_entries(folder)
    (folder / manifest.MANIFEST_FILE).unlink()
    store, held = uploaded(folder), list[list[str]]()
    store.remove(f"{SHARDS}/00001.h5")
    with hold_output(store) as output:
        shards = output.path / SHARDS
        for job in output.each_in_scratch(plan(read_description(output.path), [])):
            held.append([file.name for file in shards.iterdir()])
            assert sha256_of_file(shards / job.name) == entries[job.first // 8].sha256
        assert not list(shards.iterdir())
    assert held == [["00000.h5"], ["00002.h5"]]


def test_a_worker_has_at_hand_what_its_shard_is_made_of_and_puts_it_whole(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    small = open_folder(make_dataset(tmp_path / "data", 12, finished=False))
    settings, entry = small.description.settings, small.entries[1]
    begin(small.path, settings, 16)
    opened = open_folder(small.path)
    store, job = uploaded(opened.path), Job("00002.h5", 8, 8, entry)
    with scratch_for_job(store, settings, job) as folder:
        assert read_description(folder) == opened.description
        assert sha256_of_file(folder / SHARDS / entry.name) == entry.sha256
        (folder / SHARDS / job.name).write_bytes(b"made")
        assert store.get(f"{SHARDS}/{job.name}") is None
    assert store.get(f"{SHARDS}/{job.name}") == b"made"
    assert not folder.exists()

    def make(content: bytes, at_last: Callable[[], object]) -> None:
        with scratch_for_job(store, settings, job) as folder:
            assert (folder / SHARDS / job.name).read_bytes() == b"made"  # for the worker to adopt, if it is sound
            (folder / SHARDS / job.name).write_bytes(content)
            at_last()

    with pytest.raises(ZeroDivisionError):
        make(b"half", lambda: 1 / 0)
    begin(tmp_path / "other", settings | {"size": 32}, 16, 8)
    for now in (small.description.as_dict(), read_description(tmp_path / "other").as_dict()):
        with pytest.raises(UserError, match=f"{store}"):
            make(b"of a dataset that is no more", lambda now=now: store.put(DATASET_FILE, json.dumps(now).encode()))
        store.put(DATASET_FILE, (opened.path / DATASET_FILE).read_bytes())
    store.remove(DATASET_FILE)
    with pytest.raises(UserError, match=r"dataset\.json"):
        make(b"of none at all", lambda: None)
    assert store.get(f"{SHARDS}/{job.name}") == b"made"


def test_a_worker_has_the_latents_file_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    drawn, file = open_folder(make_dataset(tmp_path / "drawn", 8)), npy_bytes(np.zeros((8, 10), np.float32))
    settings = drawn.description.settings | {"source": source_of_copy(file, seed=0, split="train")}
    begin(tmp_path / "data", settings, 8)
    store = uploaded(tmp_path / "data")
    job = Job("00000.h5", 0, 8)
    with pytest.raises(UserError, match=rf"{store}/{LATENTS_FILE} is missing"), scratch_for_job(store, settings, job):
        pass
    store.put(LATENTS_FILE, file)
    for _ in range(2):
        with scratch_for_job(store, settings, job) as folder:
            assert copy_is_sound(folder, settings)
            (folder / SHARDS / job.name).touch()
        store.put(LATENTS_FILE, b"another")  # the second time it is the cache's copy, which has the right hash
