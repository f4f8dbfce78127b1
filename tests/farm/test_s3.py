"""The real farm with its output in an object store: killed, resumed, grown, verified and read back."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from farm.conftest import SCENE
from farm.daskprocesses import DaskProcesses
from farm.test_faults import wait_for

from ident3d import ImageDataset, make_loader, verify
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.farm.cluster import Cluster
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.latents.draws import draw
from ident3d.latents.worlds import World
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.description import DATASET_FILE, SHARDS
from ident3d.loaders.stores.cache import ENTRIES
from ident3d.loaders.stores.store import Store
from ident3d.loaders.stores.store_lease import LEASE_FOLDER, lease_on_store

pytestmark = pytest.mark.bpy

SMALL = Recipe(World(SCENE), size=16, quality="draft")

CLIENT = f"""
import sys
from ident3d.latents.worlds import World
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
if __name__ == "__main__":
    render(5, Recipe(World({SCENE!r}), size=16, quality="draft"), out=sys.argv[1], latents=sys.argv[2],
           workers=1, shard_size=2, show_progress=False)
"""


def test_a_render_to_s3_survives_its_client_and_is_the_local_one_byte_by_byte(bucket: str, tmp_path: Path) -> None:
    store, latents, local = Store(f"{bucket}/sets/data"), tmp_path / "latents.npy", tmp_path / "data"
    np.save(latents, draw(World(SCENE), seed=7, split="test", start=0, count=6).raw)
    command = [sys.executable, "-c", CLIENT, store.url, str(latents)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as client:
        limit = time.monotonic() + 120
        while not store.sizes(ENTRIES):
            assert client.poll() is None
            assert time.monotonic() < limit
        assert store.sizes(LEASE_FOLDER)
        client.kill()
    assert open_folder(store.url).finished < 5
    words = {"latents": latents, "workers": 1, "shard_size": 2, "show_progress": False}
    with lease_on_store(store), pytest.raises(UserError, match=rf"{store} .* process {os.getpid()} "):
        render(6, SMALL, out=store.url, **words)
    resumed = render(6, SMALL, out=store.url, **words)  # at once, though the dead client's lease is not a minute old
    assert resumed.complete
    assert 0 < resumed.rendered < 6

    render(6, SMALL, out=local, **words)
    files = [str(file.relative_to(local)) for file in local.rglob("*") if file.is_file()]
    assert {name for name in files if store.get(name) != (local / name).read_bytes()} == {"provenance.json"}
    assert store.sizes("").keys() == {name for name in files if "/" not in name}
    assert store.sizes(SHARDS).keys() == {"00000.h5", "00001.h5", "00002.h5"}
    assert not store.sizes(ENTRIES)
    assert not store.sizes(LEASE_FOLDER)

    assert verify(store.url, show_progress=False).sound
    here = ImageDataset(local)
    seen = list(make_loader(ImageDataset(store.url), 4, workers=1, shuffle=False))
    np.testing.assert_array_equal(np.concatenate([x.permute(0, 2, 3, 1) for _, x in seen]), here.images(range(6)))
    np.testing.assert_array_equal(np.concatenate([z for z, _ in seen]), here.latents(range(6)))

    done = CliRunner().invoke(main, ["info", store.url, "--json"])
    assert json.loads(done.output)["path"] == store.url
    with pytest.raises(UserError, match=rf"{store}.*size: 16 .* 32"):
        render(6, Recipe(World(SCENE), size=32, quality="draft"), out=store.url, **words)


def test_workers_of_a_scheduler_render_to_s3_what_they_render_to_a_folder(bucket: str, tmp_path: Path) -> None:
    store, local = Store(f"{bucket}/sets/data"), tmp_path / "data"
    with DaskProcesses(tmp_path / "dask") as dask:
        dask.add_worker()
        dask.add_worker()
        wait_for(dask.file.exists)
        there = {"shard_size": 2, "cluster": Cluster(scheduler=str(dask.file)), "show_progress": False}
        assert render(6, SMALL, out=local, **there).rendered == 6
        assert render(4, SMALL, out=store.url, **there).rendered == 4
        assert render(6, SMALL, out=store.url, **there).rendered == 2
    files = [str(file.relative_to(local)) for file in local.rglob("*") if file.is_file()]
    assert {name for name in files if store.get(name) != (local / name).read_bytes()} == {"provenance.json"}
    assert store.sizes(SHARDS).keys() == {"00000.h5", "00001.h5", "00002.h5"}
    assert not store.sizes(ENTRIES)
    runs = json.loads(store.get("provenance.json") or b"")["runs"]
    assert [run["images"] for run in runs] == [4, 2]
    assert all(len(run["rendered_on"]) == 1 and "workers" not in run for run in runs)  # by none of our own


def test_a_render_to_google_s_storage_is_the_local_one_byte_by_byte(google: str, tmp_path: Path) -> None:
    """It grows, too; the server has no conditional writes, which is noticed."""
    store, local = Store(f"{google}/sets/data"), tmp_path / "data"
    words = {"workers": 1, "shard_size": 2, "show_progress": False}
    unguarded = rf"{google}/sets.* second writer"
    for n in (4, 6):
        with pytest.warns(UserWarning, match=unguarded):
            assert render(n, SMALL, out=store.url, **words).complete
    render(6, SMALL, out=local, **words)
    files = [str(file.relative_to(local)) for file in local.rglob("*") if file.is_file()]
    assert {name for name in files if store.get(name) != (local / name).read_bytes()} == {"provenance.json"}
    assert store.sizes("").keys() == {name for name in files if "/" not in name}
    assert not store.sizes(ENTRIES)
    assert not store.sizes(LEASE_FOLDER)
    assert verify(store.url, show_progress=False).sound
    np.testing.assert_array_equal(ImageDataset(store.url).images(range(6)), ImageDataset(local).images(range(6)))


def test_lacking_credentials_are_told_of_on_the_side_that_lacks_them(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # or it is waited for
    monkeypatch.setenv("HOME", str(tmp_path))
    lacking = rf"{bucket}/sets cannot be used from here, host \S+ \(NoCredentialsError: "
    with DaskProcesses(tmp_path / "dask") as dask:
        with monkeypatch.context() as without:
            for name in names:
                without.delenv(name)
            dask.add_worker()
        wait_for(dask.file.exists)
        words = {"cluster": Cluster(scheduler=str(dask.file)), "show_progress": False}
        with pytest.raises(UserError, match=rf"tcp://\S+: {lacking}"):
            render(2, SMALL, out=f"{bucket}/sets", **words)
    for name in names:
        monkeypatch.delenv(name)
    command = [sys.executable, "-m", "ident3d", "render", "--n", "2", "--out", f"{bucket}/sets"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.match(f"Error: {lacking}", done.stderr)


def test_a_place_that_holds_other_things_is_refused(bucket: str) -> None:
    store = Store(f"{bucket}/letters")
    store.put("novel.txt", b"once")
    with pytest.raises(UserError, match=f"{store} .* not a dataset"):
        render(2, SMALL, out=store.url, workers=1, show_progress=False)
    assert store.get(DATASET_FILE) is None
    assert store.sizes("").keys() == {"novel.txt"}
    assert not store.sizes(LEASE_FOLDER)
