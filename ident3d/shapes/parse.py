"""Triangle meshes from Wavefront OBJ, Stanford PLY and STL files, plain or compressed with bzip2."""

import bz2
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError

# Bytes of an unpacked file.
LARGEST_FILE: Final = 200_000_000
# Its cube, a volume, is far from the largest float64.
LARGEST_COORDINATE: Final = 1e30
_BYTE_ORDER: Final = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_TYPES: Final = (
    {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
    | {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"}
    | {"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"}
)


class Triangles(NamedTuple):
    """Vertices (V, 3) float64 and faces (F, 3) int32, counter-clockwise seen from outside."""

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]


def parse(name: str, data: bytes) -> Triangles:
    """Return the mesh in a file of this name: .obj, .ply or .stl, or one of them with .bz2 at the end."""
    shown, stem = name, name.lower()
    if stem.endswith(".bz2"):
        stem, data = stem.removesuffix(".bz2"), _unpacked(name, data)
    readers = {".obj": parse_obj, ".ply": parse_ply, ".stl": parse_stl}
    reader = readers.get(stem[-4:])
    if reader is None:
        raise UserError(f"{shown} is no .obj, .ply or .stl file.")
    try:
        mesh = reader(data)
    except UserError as error:
        raise UserError(f"{shown} cannot be read: {error}") from None
    except (ValueError, IndexError, KeyError, StopIteration, OverflowError):
        raise UserError(f"{shown} cannot be read: it is damaged, or not the kind of file that its name says.") from None
    return check(shown, mesh)


def check(name: str, mesh: Triangles) -> Triangles:
    """Return the mesh; raise UserError if it cannot be drawn."""
    vertices, faces = mesh
    if not len(vertices) or not len(faces):
        raise UserError(f"{name} holds no triangles.")
    if not np.isfinite(vertices).all():
        raise UserError(f"{name} has vertices that are not finite numbers.")
    if np.abs(vertices).max() > LARGEST_COORDINATE:
        raise UserError(f"{name} has vertices further away than {LARGEST_COORDINATE:g}.")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise UserError(f"{name} has faces whose vertices are not there.")
    return mesh


def _unpacked(name: str, data: bytes) -> bytes:
    parts: list[bytes] = []
    room = LARGEST_FILE
    # Programs that compress in parallel write one stream after the other. `room` keeps a small file from filling memory
    # once it is unpacked.
    while data or not parts:
        decompressor = bz2.BZ2Decompressor()
        try:
            parts.append(decompressor.decompress(data, room))
        except OSError:
            raise UserError(f"{name} cannot be unpacked: it is not a bzip2 file, or damaged.") from None
        if not decompressor.eof:
            raise UserError(f"{name} cannot be unpacked: it is cut short, or larger than {LARGEST_FILE // 10**6} MB.")
        room -= len(parts[-1])
        data = decompressor.unused_data
    return b"".join(parts)


def parse_obj(data: bytes) -> Triangles:
    """Read OBJ: lines ``v x y z`` and ``f a b c …``. A polygon becomes a fan of triangles.

    A corner is vertex/texture/normal. Vertices count from 1, or from the end if negative.
    """
    vertices: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    for line in data.decode("utf-8", errors="replace").splitlines():
        kind, *words = line.split() or [""]
        if kind == "v":
            x, y, z = words[:3]
            vertices.append([float(x), float(y), float(z)])
        elif kind == "f":
            corners = [int(word.partition("/")[0]) for word in words]
            corners = [c - 1 if c > 0 else len(vertices) + c for c in corners]
            faces += [(corners[0], b, c) for b, c in pairwise(corners[1:])]
    return Triangles(np.array(vertices, np.float64).reshape(-1, 3), np.array(faces, np.int32).reshape(-1, 3))


def parse_ply(data: bytes) -> Triangles:
    """Read PLY, text or binary: the element ``vertex`` with x, y, z and the element ``face`` with one list."""
    head, _, body = data.partition(b"end_header")
    elements, order = _ply_header(head.decode("ascii", errors="replace"))
    body = body[body.index(b"\n") + 1 :]
    if not order:
        return _ply_text(body, elements)
    # Every face is read as a triangle. A longer one shifts all that follows, and its own counter shows it.
    found: dict[str, NDArray[np.void]] = {}
    for name, (count, properties) in elements.items():
        layout: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
        for label, kind, counter in properties:
            if counter:
                layout += [("corners", order + counter), (label, order + kind, (3,))]
            else:
                layout.append((label, order + kind))
        dtype = np.dtype(layout)
        found[name], body = np.frombuffer(body, dtype, count), body[count * dtype.itemsize :]
    face = found["face"]
    if not (face["corners"] == 3).all():
        raise UserError("it has faces that are not triangles; triangulate it first.")
    (label,) = [label for label, _, counter in elements["face"][1] if counter]
    vertices = np.stack([found["vertex"][axis] for axis in "xyz"], axis=1)
    return Triangles(vertices.astype(np.float64), face[label].astype(np.int32))


# Name, type, and for a list the type of its length.
Properties = list[tuple[str, str, str]]


def _ply_header(text: str) -> tuple[dict[str, tuple[int, Properties]], str]:
    """Return the elements with counts and properties, and the byte order: "" for text."""
    lines = [line.split() for line in text.splitlines()]
    if lines[0] != ["ply"]:
        raise UserError("it does not begin with the word ply.")
    elements: dict[str, tuple[int, Properties]] = {}
    current: Properties = []
    order = ""
    for words in lines[1:]:
        if words[:1] == ["format"]:
            order = _BYTE_ORDER[words[1]]
        elif words[:1] == ["element"]:
            current = []
            elements[words[1]] = int(words[2]), current
        elif words[:2] == ["property", "list"]:
            current.append((words[4], _TYPES[words[3]], _TYPES[words[2]]))
        elif words[:1] == ["property"]:
            current.append((words[2], _TYPES[words[1]], ""))
    if min(count for count, _ in elements.values()) < 0:
        raise UserError("it has a negative count.")
    return elements, order


def _ply_text(body: bytes, elements: dict[str, tuple[int, Properties]]) -> Triangles:
    lines = iter(body.decode("ascii").splitlines())
    rows = {name: [next(lines).split() for _ in range(count)] for name, (count, _) in elements.items()}
    places = [[label for label, _, _ in elements["vertex"][1]].index(axis) for axis in "xyz"]
    if any(row[0] != "3" for row in rows["face"]):
        raise UserError("it has faces that are not triangles; triangulate it first.")
    vertices = [[float(row[place]) for place in places] for row in rows["vertex"]]
    return Triangles(np.array(vertices), np.array([[int(i) for i in row[1:4]] for row in rows["face"]], np.int32))


# Of a triangle in a binary STL: its normal, its three corners, and two bytes that mean nothing.
_STL: Final = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")])
_STL_HEAD: Final = 80


def parse_stl(data: bytes) -> Triangles:
    """Read STL, text or binary: triangles of three points each. Equal points become one vertex."""
    # A binary file may begin with the word solid too; its length says which it is.
    count = int.from_bytes(data[_STL_HEAD : _STL_HEAD + 4], "little")
    if len(data) == _STL_HEAD + 4 + count * _STL.itemsize:
        corners = np.frombuffer(data, _STL, count, _STL_HEAD + 4)["corners"].reshape(-1, 3)
    elif data.lstrip().startswith(b"solid"):
        words = [line.split() for line in data.decode("ascii").splitlines()]
        corners = np.array([[float(x) for x in line[1:4]] for line in words if line[:1] == ["vertex"]], np.float64)
        corners = corners.reshape(-1, 3)
    else:
        raise UserError("it is neither a binary nor a text STL of this length.")
    if len(corners) % 3:
        raise UserError("it has a triangle that lacks a corner.")
    # Adding 0 makes -0 and 0 one point.
    vertices, numbers = np.unique(corners.astype(np.float64) + 0.0, axis=0, return_inverse=True)
    faces = numbers.reshape(-1, 3).astype(np.int32)
    apart = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return Triangles(vertices, faces[apart])
