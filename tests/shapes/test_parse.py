"""Mesh files of every kind give the same mesh; damaged ones give one sentence."""

import bz2
import random
from contextlib import suppress

import numpy as np
import pytest
from shapes.stars import obj_bytes, star

from ident3d.errors import UserError
from ident3d.shapes.parse import parse

VERTICES, FACES = star(3)
HEAD = f"""comment made for a test
element vertex {len(VERTICES)}
property uchar red
property double x
property float64 y
property double z
element face {len(FACES)}
property list uint8 int32 vertex_indices
end_header
"""


def ply_text() -> bytes:
    rows = [f"7 {x!r} {y!r} {z!r}" for x, y, z in VERTICES.tolist()] + [f"3 {a} {b} {c}" for a, b, c in FACES]
    return ("ply\nformat ascii 1.0\n" + HEAD + "\n".join(rows)).encode()


def ply_binary(order: str, name: str) -> bytes:
    vertex = np.zeros(len(VERTICES), [("red", "u1"), ("at", f"{order}f8", (3,))])
    vertex["at"] = VERTICES
    face = np.full(len(FACES), 3, [("n", "u1"), ("corners", f"{order}i4", (3,))])
    face["corners"] = FACES
    return f"ply\nformat {name} 1.0\n{HEAD}".encode() + vertex.tobytes() + face.tobytes()


FILES = {
    "a.obj": obj_bytes(VERTICES, FACES),
    "text.ply": ply_text(),
    "little.ply": ply_binary("<", "binary_little_endian"),
    "BIG.PLY": ply_binary(">", "binary_big_endian"),
    "packed.obj.bz2": bz2.compress(obj_bytes(VERTICES, FACES)),
    "streams.ply.bz2": bz2.compress(ply_text()[:5000]) + bz2.compress(ply_text()[5000:]),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_mesh(name: str) -> None:
    mesh = parse(name, FILES[name])
    np.testing.assert_array_equal(mesh.vertices, VERTICES)
    np.testing.assert_array_equal(mesh.faces, FACES)
    assert mesh.faces.dtype == np.int32


def test_obj_polygons_textures_and_corners_from_the_end() -> None:
    text = (
        "# a square and a triangle\nvn 0 0 1\nv 0 0 0\nv 1 0 0 0.5\nv\t1 1 0\nv 0 1 0\nf 1/1/1 2//1 3/1 4\nf -4 -3 -2\n"
    )
    mesh = parse("square.obj", text.encode())
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]
    assert mesh.vertices[2].tolist() == [1, 1, 0]


def stl_binary() -> bytes:
    facet = np.zeros(len(FACES), [("normal", "<f4", (3,)), ("corners", "<f4", (3, 3)), ("unused", "<u2")])
    facet["corners"] = VERTICES[FACES]
    # Some programs begin a binary file as a text is begun.
    return b"solid".ljust(80) + np.uint32(len(FACES)).tobytes() + facet.tobytes()


def stl_text() -> bytes:
    corners = VERTICES[FACES].astype(np.float32).astype(np.float64).reshape(-1, 3).tolist()
    return b"solid star\n" + b"".join(b"  vertex %r %r %r\n" % tuple(row) for row in corners) + b"endsolid star\n"


@pytest.mark.parametrize("data", [stl_binary(), stl_text()], ids=["binary", "text"])
def test_triangles_of_an_stl_share_their_corners(data: bytes) -> None:
    mesh = parse("a.stl", data)
    assert mesh.vertices.shape == VERTICES.shape
    np.testing.assert_array_equal(mesh.vertices[mesh.faces], VERTICES[FACES].astype(np.float32))


def test_a_flat_triangle_of_an_stl_is_left_away() -> None:
    points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 0), (-0.0, 0, 0), (0, 1, 0)]
    text = "solid\n" + "".join(f"vertex {x} {y} {z}\n" for x, y, z in points)
    assert len(parse("a.stl", text.encode()).faces) == 1


@pytest.mark.parametrize(
    ("name", "data", "fact"),
    [
        ("mesh.off", b"solid", r"is no \.obj, \.ply or \.stl"),
        ("a.stl", b"solid", "holds no triangles"),
        ("a.stl", b"mesh", "neither a binary nor a text"),
        ("a.stl", b"solid\nvertex 0 0 0\nvertex 1 0 0\n", "lacks a corner"),
        ("a.stl", b"solid\nvertex 0 0\nvertex 1 0 0\nvertex 0 1 0", "damaged"),
        ("a.obj", b"", "holds no triangles"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9", "vertices are not there"),
        ("a.obj", b"v 0 0\nf 1 1 1", "damaged"),
        ("a.obj", b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3", "not finite"),
        ("a.obj", b"v 0 0 2e30\nv 1 0 0\nv 0 1 0\nf 1 2 3", r"further away than 1e\+30"),
        ("a.ply", b"solid", "word ply"),
        ("a.ply", FILES["little.ply"][:-1], "damaged"),
        ("a.ply", FILES["text.ply"].replace(b"\n3 ", b"\n4 "), "not triangles"),
        ("a.ply", FILES["little.ply"].replace(b"vertex 266", b"vertex -66"), "negative count"),
        ("a.obj.bz2", b"v 0 0 0", "not a bzip2 file"),
        ("a.obj.bz2", FILES["packed.obj.bz2"][:-9], "cut short"),
        ("a.obj.bz2", bz2.compress(b"") + FILES["packed.obj.bz2"][:-9], "cut short"),
        ("a.obj.bz2", FILES["packed.obj.bz2"] + b"more", "damaged"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(name: str, data: bytes, fact: str) -> None:
    with pytest.raises(UserError, match=fact):
        parse(name, data)


def test_the_limit_is_for_all_streams_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ident3d.shapes.parse.LARGEST_FILE", len(ply_text()) - 1)
    with pytest.raises(UserError, match="larger than"):
        parse("streams.ply.bz2", FILES["streams.ply.bz2"])


@pytest.mark.parametrize("name", FILES)
def test_damage_anywhere_gives_a_mesh_or_a_sentence(name: str) -> None:
    rng = random.Random(0)
    for _ in range(60):
        data = bytearray(FILES[name])
        for _ in range(rng.choice([1, 1, 20])):
            data[random.randrange(rng.choice([400, len(data)]))] = random.randrange(256)
        cut = rng.choice([len(data), rng.randrange(len(data))])
        with suppress(UserError):
            mesh = parse(name, bytes(data[:cut]))
            assert np.isfinite(mesh.vertices).all()
            assert 0 <= mesh.faces.min() <= mesh.faces.max() < len(mesh.vertices)
