"""A mesh is in the cache whole and unchanged, or it is not there."""

import json
from pathlib import Path

import numpy as np
import pytest
from shapes.stars import star

from ident3d.errors import UserError
from ident3d.shapes.cache import cached_meshes, load_mesh, mesh_folder, store
from ident3d.shapes.normalise import NormalMesh, normalise_mesh
from ident3d.shapes.parse import Triangles


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mesh_folder().mkdir(parents=True)
    return mesh_folder()


def shape(rays: int) -> NormalMesh:
    vertices, faces = star(rays)
    return normalise_mesh(Triangles(vertices, faces.astype(np.int32)))


def test_what_is_stored_is_loaded(cache: Path) -> None:
    record = store("Cow", shape(2), origin="a test", terms="none")
    mesh = load_mesh("Cow")
    np.testing.assert_array_equal(mesh.vertices, shape(2).vertices)
    np.testing.assert_array_equal(mesh.faces, shape(2).faces)
    assert mesh.record == record == cached_meshes()["Cow"]


def test_a_new_mesh_takes_the_place_of_the_old(cache: Path) -> None:
    first, second = (store("Cow", shape(rays), origin="a test", terms="none") for rays in (2, 3))
    assert first.sha256 != second.sha256
    assert load_mesh("Cow").record == second
    assert len(list(cache.glob("*.npz"))) == 1


def test_a_missing_mesh_is_told_with_the_command_that_brings_it(cache: Path) -> None:
    with pytest.raises(UserError, match=r"Horse.*ident3d meshes"):
        load_mesh("Horse")


@pytest.mark.parametrize("damage", ["flip", "truncate", "pickle", "other"])
def test_a_damaged_mesh_is_refused(damage: str, cache: Path) -> None:
    store("Cow", shape(2), origin="a test", terms="none")
    (file,) = cache.glob("*.npz")
    data = file.read_bytes()
    if damage == "flip":
        middle = len(data) // 3
        file.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    elif damage == "truncate":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "pickle":
        np.savez(file, vertices=np.array([{}], dtype=object), faces=shape(2).faces, allow_pickle=True)
    else:
        np.savez(file, vertices=shape(3).vertices, faces=shape(3).faces)
    with pytest.raises(UserError, match="ident3d meshes"):
        load_mesh("Cow")


@pytest.mark.parametrize(
    "index",
    ["", "[]", '{"format": 1}', '{"format": 1, "meshes": {"Cow": {"sha256": 5}}}', "../outside"],
)
def test_a_damaged_index_is_refused(index: str, cache: Path) -> None:
    if index == "../outside":
        record = {"sha256": "../../../outside", "triangles": 1, "origin": "", "terms": ""}
        index = json.dumps({"format": 1, "meshes": {"Cow": record}})
    (cache / "index.json").write_text(index)
    with pytest.raises(UserError, match="delete it"):
        cached_meshes()


@pytest.mark.parametrize(("field", "value"), [("sha256", 5), ("triangles", "5"), ("origin", None), ("terms", ["no"])])
def test_an_index_with_a_value_of_another_type_is_refused(field: str, value: object, cache: Path) -> None:
    store("Cow", shape(2), origin="a test", terms="none")
    index = json.loads((cache / "index.json").read_text())
    index["meshes"]["Cow"][field] = value
    (cache / "index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="delete it"):
        cached_meshes()


def test_a_mesh_whose_file_is_gone_is_missing(cache: Path) -> None:
    store("Cow", shape(2), origin="a test", terms="none")
    for file in cache.glob("*.npz"):
        file.unlink()
    assert cached_meshes() == {}
