"""Hostile versions of the files that we read: each function takes sound content and a generator,
and returns bytes."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import struct
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

DEEP = 100_000
# What no field of ours is, or only a few are.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 2**31, 2**63, 2**64, 10**15, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e300, -1e308,
    float("nan"), float("inf"), "", "x", "0", "é\u2028", "\ud800", "x" * 70_000, "../../outside", "/etc/passwd",
    "\0", "%s%n",
    "__class__", [], {}, [[]], [0] * 3, ["x"] * 7, [None] * 10, [1e300] * 10, {"": 1}, {"x": {}}, [[0] * 10] * 10,
)  # fmt: skip


def mangle(data: bytes, rng: Random) -> bytes:
    """Change bytes without knowing what they mean."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(out) + 1)
        span = rng.choice((1, 2, 4, 8, 64, 512))
        match rng.randrange(7):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at : at + span] = bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF))]) * span
            case 2:
                out[at : at + span] = rng.randbytes(span)
            case 3:
                number = rng.choice((0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1))
                out[at : at + 8] = struct.pack(rng.choice("<>") + "Q", number)
            case 4:
                del out[at:]
            case 5:
                del out[at : at + span]
            case _:
                out[at:at] = out[at // 2 : at // 2 + span]
    return bytes(out)


def places(content: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON value."""
    for key in content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ():
        found.append((content, key))
        places(content[key], found)
    return found


def change_fields(content: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Give fields other values or names, or take them away."""
    content = json.loads(json.dumps(content))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        if not (all_places := places(content, [])):
            break
        # Most places of a record lie deep in its tables; half of the changes are at the top.
        top = [place for place in all_places if place[0] is content or any(place[0] is v for v in content.values())]
        container, key = rng.choice(top if rng.random() < 0.5 else all_places)
        match rng.randrange(6):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container[rng.choice(("x", "", "format", key + "x"))] = container.pop(key)
            case 2:
                other, name = rng.choice(all_places)
                value = other[name] if name in other or (isinstance(other, list) and name < len(other)) else None
                container[key] = json.loads(json.dumps(value))
            case 3 if isinstance(container[key], int | float):
                container[key] = rng.choice(
                    (-container[key], container[key] + 1, float(container[key]), str(container[key]))
                )
            case _:
                container[key] = rng.choice(VALUES)
    return content


def json_bytes(content: dict[str, Any], rng: Random, sign: Callable[[dict[str, Any]], None] | None = None) -> bytes:
    """Change fields, mostly with the digests made anew, or the text."""
    kind = rng.randrange(10)
    if kind < 7:
        content = change_fields(content, rng)
        if sign and kind < 6:
            # What cannot be signed stays unsigned.
            with suppress(Exception):
                sign(content)
        return json.dumps(content).encode()
    text = json.dumps(content)
    if kind == 7:
        return mangle(text.encode(), rng)
    if kind == 8:
        nested = rng.choice(("[" * DEEP, "[" * 900 + "]" * 900, '{"a":' * DEEP, '{"a":' * 700 + "1" + "}" * 700))
        return (text[:-1] + ',"x":' + nested + "}").encode() if rng.random() < 0.5 else nested.encode()
    return rng.choice((
        b"", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", "é".encode("latin-1"), text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
        b'{"a":' + b"9" * 5000 + b"}", text.encode() * 2, b"\0" * 100_000, b" " * 2**25, b"[[],{}," * 2**20,
    ))  # fmt: skip


def npy(array: np.ndarray, rng: Random) -> bytes:
    """An .npy or .npz file that lies in its header, or holds other things than numbers."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    sound = buffer.getvalue()
    match rng.randrange(6):
        case 0:
            return mangle(sound, rng)
        case 1:
            shape = rng.choice(
                ((2**62, 2**62), (10**12, 10), (-1, 10), (10**9,), (), (0, 10), (len(array), 10**9), (2,) * 40)
            )
            kind = rng.choice(
                ("<f4", "<f8", "|O", "<U9", "<f2", "<c16", "|V8", "<M8[s]", "|S1000000", "[('a','<f4')]", "x" * 1000)
            )
            named = kind if kind.startswith("[") else repr(kind)
            head = f"{{'descr': {named}, 'fortran_order': {rng.choice(('True', 'False', '1'))}, 'shape': {shape}}}"
            head = rng.choice((head, head, "(" * 5000, "[" * 90 + "]" * 90, "{" + head, "1" * 60_000))
            data = head.encode().ljust(118) + b"\n"
            size = rng.choice((len(data), len(data), 65535, 0))
            return b"\x93NUMPY\x01\0" + struct.pack("<H", min(size, 65535)) + data + array.tobytes()
        case 2:
            other = rng.choice((
                array.astype(np.float64) * rng.choice((1e300, np.inf, np.nan, 0, -1)), array[:, :1], array[:0],
                array.T, array[0],
                array.astype(rng.choice(("f2", "i8", "c16", "?", "U5", "S3", "g"))), array[None],
                np.zeros((len(array), 3000)),
                np.zeros((len(array), 0)), np.array(3.0), np.zeros(array.shape, "M8[s]"), np.full(array.shape, 2**63,
                "u8"),
                np.full(array.shape, 1e300), np.full(array.shape, 5e-324), np.zeros(3, [("a", "f4"), ("b", "f8")]),
            ))  # fmt: skip
            buffer = io.BytesIO()
            np.save(buffer, other)
            return buffer.getvalue()
        case 3:
            buffer = io.BytesIO()
            np.save(buffer, np.array([Canary()] * len(array), object), allow_pickle=True)
            return rng.choice((buffer.getvalue(), pickle.dumps(Canary())))
        case 4:
            buffer = io.BytesIO()
            np.savez_compressed(
                buffer, **dict.fromkeys(rng.choice((("a",), ("vertices", "faces"), ("x" * 300,))), array)
            )
            return mangle(buffer.getvalue(), rng) if rng.random() < 0.7 else buffer.getvalue()
        case _:
            return rng.choice(
                (b"", b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18, sound + b"x" * 100, sound[:-1])
            )


class Canary:
    """Unpickling it makes a file, which the audit of the fuzzer sees."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("/tmp/ident3d-unpickled", "w")


def tensors(data: bytes, rng: Random) -> bytes:
    """A safetensors file with another header."""
    size = struct.unpack("<Q", data[:8])[0]
    head, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    kind = rng.randrange(5)
    if kind == 0:
        return mangle(data, rng)
    if kind == 1:
        state = json.loads(head["__metadata__"]["ident3d"])
        head["__metadata__"]["ident3d"] = json_bytes(state, rng).decode("latin-1")
    elif kind == 2:
        floats = np.frombuffer(body, "<f4").copy() if len(body) % 4 == 0 else np.zeros(1, "<f4")
        floats[rng.randrange(len(floats))] = rng.choice((np.nan, np.inf, 1e38, -1e38, 1e-45))
        body = floats.tobytes()
    else:
        head = change_fields(head, rng)
    text = json.dumps(head).encode()
    length = len(text) if kind < 4 or rng.random() < 0.7 else rng.choice((0, 2**20, 2**40, 2**63, 2**64 - 1))
    return struct.pack("<Q", length) + text + body


TOML = (
    "9" * 4000, "0x" + "f" * 9000, "1e999", "nan", "-inf", "true", '""', "'x'", "[]", "{}", "[" * 49_000,
    "[" * 900 + "]" * 900,
    '"sin(sin(x))"', '"1/0"', '"x/y"', '"9**9**9"', '"__import__(\'os\')"', '"' + "(" * 299 + '"',
    '"' + "-" * 290 + 'x"', '"x*1e999"',
    '"0.5*nope"', "1979-05-27", '"' + "x+" * 149 + 'x"', '"1e5*1e5*1e5*x"', '{Teapot = "x"}', '["Teapot", "Teapot"]',
    "[1, -1]",
    '"' + "1*" * 140 + 'z"', '"\\ud800"', '"cos(1e300)"', '"x if y else z"', '"(lambda: 0)()"', '"9e5/1e-320*x"',
    '"1/(1-1)"',
)  # fmt: skip


def toml(text: str, rng: Random) -> bytes:
    """A graph with other values, keys or nesting."""
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        match rng.randrange(6):
            case 0 | 1 if "=" in lines[at]:
                lines[at] = lines[at].partition("=")[0] + "= " + rng.choice(TOML)
            case 2:
                lines.insert(
                    at,
                    rng.choice(("x", "mean", "sd", "range", "classes", '""', "a" + ".a" * 400))
                    + " = "
                    + rng.choice(TOML),
                )
            case 3:
                lines.insert(
                    at,
                    rng.choice(
                        ("[x]", "[[x]]", "[nope]", "[x.mean]", "[" + "a." * 24_000 + "a]", "a." * 24_000 + "a=1")
                    ),
                )
            case 4:
                del lines[at]
            case _:
                return mangle("\n".join(lines).encode(), rng)
        lines = lines or [""]
    return "\n".join(lines).encode()


def shard(data: bytes, rng: Random) -> bytes:
    """A shard with other attributes, datasets, types, shapes, filters or links, or with other bytes."""
    if rng.random() < 0.5:
        return mangle(data, rng)
    buffer = io.BytesIO(data)
    try:
        with h5py.File(buffer, "r+") as file:
            for _ in range(rng.choice((1, 1, 2))):
                change_shard(file, rng)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError):
        return mangle(data, rng)
    return buffer.getvalue()


def change_shard(file: h5py.File, rng: Random) -> None:
    name = rng.choice(("images", "raw_latents", "scene_latents", "index", "class"))
    match rng.randrange(6):
        case 0:
            value = rng.choice((
                2**33, -1, 1.5, "text", np.zeros(5000), np.bytes_(b"[" * 30_000), np.bytes_(b"{}"),
                np.bytes_(b"\xff"), h5py.Empty("f4"),
                np.bytes_(b'{"world": 3}'), np.True_, np.array([1, 2]), np.bytes_(b"x" * 60_000), np.array(["a",
                "b"], h5py.string_dtype()),
            ))  # fmt: skip
            file.attrs[rng.choice(("format", "format_version", "settings", "other"))] = value
        case 1:
            del file.attrs[rng.choice(("format", "format_version", "settings"))]
        case 2:
            file.pop(name, None)
            file[name] = rng.choice(
                (
                    h5py.SoftLink("/images"),
                    h5py.SoftLink("/none"),
                    h5py.ExternalLink("/etc/passwd", "x"),
                    h5py.SoftLink("/"),
                )
            )
        case 3:
            rows = len(file[name]) if name in file else 4
            file.pop(name, None)
            kind = rng.choice(
                (
                    "u1",
                    "f4",
                    "i8",
                    "i1",
                    "f2",
                    "c8",
                    "S10",
                    "?",
                    h5py.vlen_dtype(np.uint8),
                    h5py.string_dtype(),
                    [("a", "f4")],
                    h5py.ref_dtype,
                )
            )
            shape = rng.choice(
                (
                    (rows,),
                    (rows, 10),
                    (rows, 8, 8, 3),
                    (2**40, 10),
                    (rows, 2**40),
                    (0, 10),
                    (),
                    (rows,) * 8,
                    (rows, 8192, 8192, 3),
                )
            )
            options = rng.choice(
                (
                    {},
                    {"chunks": True},
                    {"chunks": True, "compression": "gzip"},
                    {"chunks": True, "compression": "lzf"},
                    {"chunks": True, "shuffle": True, "fletcher32": True},
                    {"maxshape": (None,) * len(shape)},
                    {"fillvalue": None},
                )
            )
            file.create_dataset(name, shape, kind, **options)
        case 4:
            images = file["images"]
            chunk = rng.choice((b"", b"\0" * 192, rng.randbytes(100), gzip.compress(bytes(192)), bytes(10**6)))
            images.id.write_direct_chunk(
                (rng.randrange(len(images)), 0, 0, 0), chunk, filter_mask=rng.choice((0, 1, 2, 255))
            )
        case _:
            file.pop(name, None)
            if rng.random() < 0.5:
                file.create_group(name)
            else:
                layout = h5py.VirtualLayout((4, 10), "f4")
                layout[0] = h5py.VirtualSource("/etc/passwd", "x", (10,))
                file.create_virtual_dataset(name, layout)


def archive(folder: Path, rng: Random) -> tuple[str, bytes]:
    """A tar archive of the folder's files with hostile members and headers, packed in one of four ways."""
    buffer = io.BytesIO()
    form = rng.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        hostile = rng.randrange(len(files) + 1)
        for number, path in enumerate(files):
            if number == hostile:
                for _ in range(rng.choice((1, 2))):
                    # Not every member can be written in every format.
                    with suppress(ValueError, UnicodeError):
                        tar.addfile(*hostile_member(rng))
            tar.add(path, path.relative_to(folder).as_posix())
    data = patch_headers(buffer.getvalue(), rng) if rng.random() < 0.5 else buffer.getvalue()
    data = mangle(data, rng) if rng.random() < 0.2 else data
    packer = rng.choice((None, gzip.compress, bz2.compress, lzma.compress))
    if packer is None:
        return "published.tar", data
    packed = packer(data)
    if packer is lzma.compress and rng.random() < 0.3:
        packed = lzma.compress(data, lzma.FORMAT_ALONE, filters=[{"id": lzma.FILTER_LZMA1, "preset": 0}])
        # The header's size of the dictionary: four gigabytes.
        packed = packed[:1] + b"\xff\xff\xff\xff" + packed[5:]
    return "published.tar.packed", mangle(packed, rng) if rng.random() < 0.3 else packed


def hostile_member(rng: Random) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(rng.choice((
        "../outside", "/tmp/outside", "images/000000.png", "images/../../x", "x" * 90_000, "raw_latents.npy",
        "images", "a\\b", ".",
    )))  # fmt: skip
    content = b"x" * rng.choice((0, 1, 1000))
    info.size = len(content)
    info.type = rng.choice((
        tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE,
        tarfile.CONTTYPE,
        tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, b"Z",
    ))  # fmt: skip
    info.linkname = rng.choice(("", "/etc/passwd", "../outside", "images/000000.png"))
    info.pax_headers = rng.choice((
        {}, {"size": "99999999999"}, {"size": "-5"}, {"path": "../outside"}, {"GNU.sparse.major": "1",
        "GNU.sparse.minor": "0"},
        {"GNU.sparse.map": "0,1,2"}, {"x" * 70_000: "y"}, {"mtime": "nan"}, {"GNU.sparse.size": "x"},
        {"hdrcharset": "BINARY"},
    ))  # fmt: skip
    return info, io.BytesIO(content)


def patch_headers(data: bytes, rng: Random) -> bytes:
    """Change fields of one header, and its checksum so that it counts."""
    heads = [at for at in range(0, len(data) - 512, 512) if data[at + 257 : at + 262] == b"ustar"]
    if not heads:
        return data
    at = rng.choice(heads)
    head = bytearray(data[at : at + 512])
    size = rng.choice(
        (b"77777777777\0", b"\x80" + b"\x7f" * 11, b"\xff" * 12, b"-0000000001\0", b"00000000000\0", b"zzzzzzzzzzz\0")
    )
    if rng.random() < 0.6:
        head[124:136] = size
    if rng.random() < 0.6:
        head[156:157] = rng.choice(
            (b"0", b"\0", b"1", b"2", b"5", b"6", b"L", b"K", b"x", b"g", b"S", b"X", b"D", b"V")
        )
    if rng.random() < 0.2:
        head[0:100] = rng.randbytes(100)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return data[:at] + bytes(head) + data[at + 512 :]
