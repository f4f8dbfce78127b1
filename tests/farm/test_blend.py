"""A .blend and its factors file, those of the docs' page: the promises of 3DIdent; a folder is never their source."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from blender_scenes.rooms import ONE, ROOM, make_room
from click.testing import CliRunner
from farm.batchsystems import wait_for
from farm.conftest import contents
from farm.daskprocesses import DaskProcesses

from ident3d import ImageDataset, traverse
from ident3d.blender_scenes import scene_files
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.farm.cluster import Cluster
from ident3d.farm.estimate import estimate
from ident3d.farm.recipe import Recipe
from ident3d.farm.render import render
from ident3d.farm.scenes import OwnScene, load_scene
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.description import read_description
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.shard import read_shard

pytestmark = pytest.mark.bpy


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with room.blend, room.toml and one.toml, of a single factor."""
    folder = tmp_path_factory.mktemp("room")
    make_room(folder / "room.blend")
    (folder / "room.toml").write_text(ROOM)
    (folder / "one.toml").write_text(ONE)
    return folder


@pytest.fixture(scope="module")
def room(files: Path) -> OwnScene:
    return load_scene(files / "room.blend", factors=files / "room.toml")


@pytest.fixture(scope="module")
def dataset(room: OwnScene, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 images in shards of 4 by one worker; to be read, not changed."""
    folder = tmp_path_factory.mktemp("rooms") / "data"
    render(16, tiny(room), out=folder, workers=1, shard_size=4, show_progress=False)
    return folder


def tiny(scene: OwnScene) -> Recipe:
    return Recipe(scene, size=16, quality="draft")


def words(files: Path, toml: str = "room.toml") -> list[str]:
    return ["--scene", str(files / "room.blend"), "--factors", str(files / toml), "--size", "16", "--quality", "draft"]


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.mark.parametrize("most", [scene_files.MOST_PACKED, 0])
def test_workers_of_a_cluster_get_the_blend_or_read_it_at_its_path(
    most: int, files: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "room.blend").write_bytes((files / "room.blend").read_bytes())
    monkeypatch.setattr(scene_files, "MOST_PACKED", most)
    recipe = tiny(load_scene(tmp_path / "room.blend", factors=files / "room.toml"))
    with DaskProcesses(tmp_path / "dask") as dask:
        dask.add_worker()
        wait_for(dask.file.exists)
        cluster, out = Cluster(scheduler=str(dask.file)), tmp_path / "data"
        if most:
            (tmp_path / "room.blend").unlink()
        else:
            sound = (tmp_path / "room.blend").read_bytes()
            (tmp_path / "room.blend").write_bytes(sound[:-1])
            with pytest.raises(UserError, match=r"room\.blend was changed"):
                render(16, recipe, out=out, shard_size=4, cluster=cluster, show_progress=False)
            (tmp_path / "room.blend").write_bytes(sound)
        render(16, recipe, out=out, shard_size=4, cluster=cluster, show_progress=False)
    assert contents(tmp_path / "data") == contents(dataset)


def test_another_source_than_the_folders_is_refused(files: Path, room: OwnScene, dataset: Path, tmp_path: Path) -> None:
    make_room(tmp_path / "room.blend", "bpy.data.lights['Key'].color = (0.5, 0.5, 1)")
    (tmp_path / "room.toml").write_text(ROOM + "# another text\n")
    before = contents(dataset)
    for blend, toml, says in ((tmp_path, files, "scene_files.blend"), (files, tmp_path, "own_scene.sha256")):
        other = load_scene(blend / "room.blend", factors=toml / "room.toml")
        assert other != room
        with pytest.raises(UserError, match=says) as caught:
            render(20, tiny(other), out=dataset, workers=1)
        assert "location" not in str(caught.value)
    assert contents(dataset) == before
    # Other names of the same files are no difference.
    (tmp_path / "hall.blend").write_bytes((files / "room.blend").read_bytes())
    assert load_scene(tmp_path / "hall.blend", factors=files / "room.toml") == room


def test_the_folder_records_its_source_and_is_not_rendered_from(
    files: Path, room: OwnScene, dataset: Path, tmp_path: Path
) -> None:
    settings = json.loads((dataset / "dataset.json").read_text())["settings"]
    blend = sha256((files / "room.blend").read_bytes())
    assert settings["scene_text"] == ROOM
    assert settings["scene_files"] == {"blend": blend}
    assert settings["world"]["own_scene"] == {"name": "Desk", "sha256": sha256(ROOM.encode())}
    assert blend in (dataset / "README.md").read_text()
    with pytest.raises(UserError, match="load_scene"):
        render(4, Recipe(ImageDataset(dataset).world, size=16, quality="draft"), out=tmp_path / "again")
    forged = read_description(dataset).settings | {"scene_files": {"blend": "0" * 64}}
    code = f"from ident3d.farm.scenes import scene_of; scene_of({forged!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "00000000… was given" in done.stderr


def test_a_factor_is_held_and_pictures_are_drawn(files: Path, room: OwnScene, tmp_path: Path) -> None:
    more = ["--fix", "shape=box", "--fix", "position=0.5", "--n", "3", "--workers", "1", "--root", str(tmp_path)]
    run("render", *words(files), *more)
    (folder,) = tmp_path.glob("Desk-*")
    opened = open_folder(folder)
    shard = read_shard(opened.shard_path(opened.entries[0]))
    assert (shard.scene_latents[:, [0, 4]] == [1, 1]).all()
    run("preview", str(folder), "--out", str(tmp_path / "preview.png"))
    sheet = np.asarray(traverse(tiny(load_scene(files / "room.blend", factors=files / "one.toml")), steps=3))
    assert sheet.shape[0] > 3 * 16
    table = run("scene", "check", *words(files, "one.toml"), "--out", str(tmp_path / "check.png"))
    assert "x " in table
    assert "no effect" not in table
    assert estimate(4, tiny(room), out=tmp_path / "new", workers=1).images == 4
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--scene", "room.blend"], "--factors"),
        (["--scene", "absent.blend", "--factors", "room.toml"], "absent.blend cannot be read"),
        (["--scene", "room.blend", "--factors", "absent.toml"], "absent.toml cannot be read"),
        (["--scene", "folder.blend", "--factors", "room.toml"], "is not a file"),
        (["--scene", "3dident", "--factors", "room.toml"], "goes with a .blend"),
        (["--scene", "mine.py:Lamp", "--factors", "room.toml"], "goes with a .blend"),
        (["--scene", "room.blend", "--factors", "room.blend"], "TOML"),
        (["--scene", "room.blend", "--factors", "evil.toml"], "no data path"),
        (["--scene", "room.blend", "--factors", "named.toml"], "one word"),
        (["--scene", "text.blend", "--factors", "room.toml"], "not a .blend"),
        (["--scene", "room.blend", "--factors", "room.toml", "--material", "metal"], "--material"),
        (["--scene", "room.blend", "--factors", "room.toml", "--do", "shap=box"], "Did you mean 'shape'"),
        (["--scene", "room.blend", "--factors", "room.toml", "--fix", "shap=box"], "Did you mean 'shape'"),
    ],
)
def test_mistakes_on_the_command_line(
    given: list[str], says: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("room.blend", "room.toml"):
        Path(name).write_bytes((files / name).read_bytes())
    mark = tmp_path / "mark"
    Path("evil.toml").write_text(ONE.replace("location[0]", f'location[open("{mark}", "w")]'))
    Path("named.toml").write_text(f"name = 'a/../b'\n{ONE}")
    Path("text.blend").write_text("import bpy\n")
    Path("folder.blend").mkdir()
    error = run("render", "--n", "4", "--out", "data", *given, code=2)
    assert says in error
    assert error.count("\n") == 1
    assert not Path("data").exists()
    assert not mark.exists()
