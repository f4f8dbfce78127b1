"""What 3DIdent promises holds for the examples and a .blend: bytes, killed runs, a real cluster, verify, traverse."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from blender_scenes.rooms import ROOM, make_room
from click.testing import CliRunner
from farm.batchsystems import wait_for
from farm.conftest import contents
from farm.daskprocesses import DaskProcesses

from ident3d import ImageDataset, Recipe, Sequences, load_scene, traverse, verify
from ident3d.cli import main
from ident3d.farm.cluster import Cluster
from ident3d.farm.render import render
from ident3d.loaders.format import manifest

pytestmark = pytest.mark.bpy


class Case(NamedTuple):
    """A scene as options and as a recipe, and 12 images of it in shards of 4 by one worker."""

    words: list[str]
    recipe: Recipe
    dataset: Path


@pytest.fixture(scope="module", params=["examples:Objects", "examples:Camera", "room.blend"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("scene")
    words, factors = ["--scene", request.param, "--size", "16", "--quality", "draft"], None
    if request.param == "room.blend":
        make_room(folder / "room.blend")
        factors = folder / "room.toml"
        factors.write_text(ROOM)
        words[1:2] = [str(folder / "room.blend"), "--factors", str(factors)]
    recipe = Recipe(load_scene(words[1], factors=factors), size=16, quality="draft")
    render(12, recipe, out=folder / "data", workers=1, shard_size=4, show_progress=False)
    return Case(words, recipe, folder / "data")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and a worker, which renders one scene after the other."""
    with DaskProcesses(tmp_path_factory.mktemp("dask")) as dask:
        dask.add_worker()
        wait_for(dask.file.exists)
        yield Cluster(scheduler=str(dask.file))


def test_a_killed_run_of_two_workers_goes_on_to_the_same_bytes(case: Case, tmp_path: Path) -> None:
    more = ["--n", "12", "--shard-size", "4", "--workers", "2", "--out", str(tmp_path / "data")]
    command = [sys.executable, "-m", "ident3d", "render", *case.words, *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    # A shard is entered, at the earliest, when it is whole; the other worker is in the middle of one.
    wait_for(
        lambda: process.poll() is not None or (tmp_path / "data" / manifest.MANIFEST_FILE).exists(), 300, "a shard"
    )
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = CliRunner().invoke(main, ["render", *case.words, *more])
    assert done.exit_code == 0, done.output
    assert "complete: 12 images" in done.stdout
    assert contents(tmp_path / "data") == contents(case.dataset)
    assert verify(tmp_path / "data", show_progress=False).good == 12


def test_a_cluster_writes_the_same_bytes(case: Case, cluster: Cluster, tmp_path: Path) -> None:
    """Its workers have no file of the scene."""
    render(12, case.recipe, out=tmp_path / "data", shard_size=4, cluster=cluster, show_progress=False)
    assert contents(tmp_path / "data") == contents(case.dataset)


def test_a_traversal_shows_every_factor(case: Case) -> None:
    sheet = traverse(case.recipe, steps=2, show_progress=False)
    assert sheet.width >= 16 * len(case.recipe.world.names)
    colours = sheet.convert("RGB").getcolors(1 << 20)
    assert colours is not None
    assert len(colours) > 50


def test_sequences_are_the_same_bytes_from_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Sequences of 5 lie across shards of 4."""
    plain = Recipe(load_scene("examples:Camera"), size=16, quality="draft")
    recipe = replace(plain, sequence=Sequences(5, sigma=0.2))
    render(15, recipe, out=tmp_path / "one", workers=1, shard_size=4, show_progress=False)
    render(15, recipe, out=tmp_path / "data", shard_size=4, cluster=cluster, show_progress=False)
    assert contents(tmp_path / "data") == contents(tmp_path / "one")
    assert ImageDataset(tmp_path / "data").column("frame").tolist() == [0, 1, 2, 3, 4] * 3
    assert verify(tmp_path / "data", show_progress=False).good == 15
