"""A run that makes a dataset in a store dies before any of its writes: the next ends with the same bytes."""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar

import numpy as np
import pytest
from synthetic import pictures

from ident3d.latents.draws import draw
from ident3d.latents.worlds import World
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.lifecycle import plan, save_if_changed, target_description
from ident3d.loaders.folders.output import hold_output
from ident3d.loaders.folders.store_transfer import scratch_for_job
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.description import SHARDS
from ident3d.loaders.format.latents_source import source_of_seed
from ident3d.loaders.format.manifest import entry_of, in_order
from ident3d.loaders.format.shard import Shard, encode_shard
from ident3d.loaders.stores.store import Store
from ident3d.loaders.stores.store_lease import LEASE_FOLDER

pytest.importorskip("fsspec")

WORLD = World("3dident")
SETTINGS: dict[str, Any] = {"world": WORLD.as_dict(), "size": 8, "source": source_of_seed(0, "train")}
SETTINGS |= {"quality": None, "material": "none", "device": "none", "versions": {}}


class Crash(BaseException):
    """The process is gone: nothing of ours catches this."""


class Mortal(Store):
    """A store whose client dies before its k-th write or removal, those of its lease aside."""

    left: ClassVar[list[int]] = [0]

    def put(self, name: str, data: bytes) -> None:
        self.live(name)
        super().put(name, data)

    def remove(self, name: str) -> None:
        self.live(name)
        super().remove(name)

    def remove_all(self, names: Iterable[str]) -> None:
        for name in names:
            self.remove(name)

    def live(self, name: str) -> None:
        self.left[0] -= not name.startswith(LEASE_FOLDER)
        if not self.left[0]:
            self.left[0] = -1
            raise Crash


def make(place: Path | Store, n: int, *, fresh: bool = False) -> int:
    """What `render` does, with pictures that cost nothing; how many shards were made."""
    with hold_output(place) as output:
        cleared = fresh and is_dataset(output.path)
        if cleared:
            output.clear()
        description, entries = target_description(output.path, SETTINGS, n, 4, cleared=cleared)
        save_if_changed(output.path, description)
        description, entries = output.resume(description, entries)
        if description.complete:
            return 0
        jobs = plan(description, entries)
        for job in jobs:
            with scratch_for_job(place, SETTINGS, job) if isinstance(place, Store) else nullcontext(place) as folder:
                raw = draw(WORLD, seed=0, split="train", start=job.first, count=job.count).raw
                index = np.arange(job.first, job.first + job.count, dtype=np.int64)
                images = np.concatenate([pictures(raw[k : k + 1], 8, job.first + k) for k in range(job.count)])
                shard = Shard(images, raw, WORLD.to_scene(raw), index)
                data = encode_shard(shard, SETTINGS)
                (folder / SHARDS / job.name).write_bytes(data)
            entries.append(entry_of(job.name, shard, data))
            output.enter(entries[-1])
        output.finish(description, in_order(entries))
        return len(jobs)


def same(store: Store, folder: Path) -> bool:
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    names = set(store.sizes("")) | {f"{SHARDS}/{name}" for name in store.sizes(SHARDS)}
    return names == files.keys() and all(store.get(name) == data for name, data in files.items())


@pytest.fixture
def mortal() -> Mortal:
    return Mortal(f"memory://{token_hex(8)}/data")


def test_dying_again_and_again_each_time_a_write_later(mortal: Mortal, tmp_path: Path) -> None:
    """Each run goes on with what the one before left; together they make hardly more shards than there are."""
    make(tmp_path / "data", 10)
    for k in range(2, 100):
        mortal.left[0] = k
        try:
            make(mortal, 10)
        except Crash:
            continue
        break
    assert 5 < k < 99
    assert same(mortal, tmp_path / "data")


@pytest.mark.parametrize("fresh", [False, True])
def test_dying_before_any_write_of_a_run_that_grows_or_begins_anew(fresh: bool, mortal: Mortal, tmp_path: Path) -> None:
    make(tmp_path / "data", 10)
    died = 0
    for k in range(1, 100):
        store = Mortal(f"{mortal}/{k}/data")
        store.left[0] = -1
        make(store, 6)
        store.left[0] = k
        try:
            make(store, 10, fresh=fresh)
        except Crash:
            died += 1
            store.left[0] = -1
            made = make(store, 10)
            assert made <= 3
        assert same(store, tmp_path / "data")
        assert verify(store.url, show_progress=False).sound
        if died < k:
            break
    assert died > 10
