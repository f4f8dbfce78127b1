"""KITTI Masks: rebuilt from annotations of our own, read from pickles of every protocol, and refused otherwise."""

import io
import os
import pickle
import pickletools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from PIL import Image

import ident3d
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.format.pickled_arrays import Refused
from ident3d.loaders.format.plain_pickle import read_plain_pickle
from ident3d.loaders.layouts.kitti_annotations import decode

QUIET: dict[str, Any] = {"show_progress": False, "workers": 1}
IGNORED = 10_000
Masks = NDArray[np.bool_]


def ellipse(height: int, width: int, row: float, column: float, radius: float) -> Masks:
    y, x = np.mgrid[0:height, 0:width]
    return ((y - row) / radius) ** 2 + ((x - column) / radius * 2) ** 2 <= 1


def video(height: int, width: int, frames: int) -> NDArray[np.int32]:
    """Numbers of objects: two walk, of which one shrinks for a while, one leaves; a car, and a region to ignore."""
    ids = np.zeros((frames, height, width), np.int32)
    for t, frame in enumerate(ids):
        frame[-height // 8 :] = IGNORED
        frame[ellipse(height, width, height * 0.3, width * 0.8, height * 0.1)] = 1001
        frame[ellipse(height, width, height * 0.5, width * (0.1 + 0.05 * t), height * 0.3)] = 2001
        size = 0.01 if t in (3, 4, 8) else 0.25
        frame[ellipse(height, width, height * 0.45, width * (0.9 - 0.06 * t), height * size)] = 2002
        if t < 2:
            frame[ellipse(height, width, height * 0.2, width * 0.5, height * 0.2)] = 2007
    return ids


def runs_code(mask: Masks) -> str:
    """COCO's letters for a mask."""
    flat = mask.T.ravel()
    changes = np.flatnonzero(np.diff(flat.astype(np.int8))) + 1
    runs = np.diff(np.concatenate([[0] if not flat[0] else [0, 0], changes, [len(flat)]])).tolist()
    letters = []
    for k, run in enumerate(runs):
        value = run - runs[k - 2] if k > 2 else run
        more = True
        while more:
            bits, value = value & 31, value >> 5
            more = value != (-1 if bits & 16 else 0)
            letters.append(chr(48 + (bits | 32 * more)))
    return "".join(letters)


def write_text(path: Path, ids: NDArray[np.int32]) -> None:
    height, width = ids.shape[1:]
    lines = [
        f"{t} {k} {k // 1000} {height} {width} {runs_code(frame == k)}"
        for t, frame in enumerate(ids)
        for k in np.unique(frame)[1:]
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def write_pictures(folder: Path, ids: NDArray[np.int32]) -> None:
    folder.mkdir(parents=True)
    for t, frame in enumerate(ids):
        Image.fromarray(frame.astype(np.uint16)).save(folder / f"{t + 1:06d}.png")


def cut(ids: NDArray[np.int32]) -> list[Masks]:
    """The sequences of a video, pixel by pixel and frame by frame, as the definition says."""
    height, width = ids.shape[1:]
    small = int(width / (height / 64))
    rows = [int(np.float32(i) * np.float32(height / 64)) for i in range(64)]
    columns = [int(np.float32(i) * np.float32(width / small)) for i in range(small)]
    ids = ids[:, rows][:, :, columns]
    found = []
    for window in range(6):
        first = window * ((small - 64) // 5)
        part = ids[:, :, first : first + 64]
        for k in sorted({int(v) for v in part.ravel()})[1:-1]:
            shown = [t for t in range(len(part)) if (part[t] == k).any()]
            run: list[Masks] = []
            for t in range(shown[0], shown[-1] + 1) if k // 1000 != 1 else ():
                if (part[t] == k).sum() >= 30:
                    run.append(part[t] == k)
                    continue
                found += [np.stack(run)] if len(run) > 2 else []
                run = []
            found += [np.stack(run)] if len(run) > 1 else []
    return found


def latents(masks: Masks) -> NDArray[np.float32]:
    places = [np.argwhere(mask) for mask in masks]
    return np.array([[*place.mean(0), len(place)] for place in places], np.float32)


@pytest.fixture(scope="module")
def annotations(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Masks]]:
    """Two text files and two folders of pictures, and the sequences in them in order."""
    base, expected = tmp_path_factory.mktemp("annotations"), []
    for number, (height, width, frames) in enumerate([(90, 301, 12), (92, 305, 7)]):
        ids = video(height, width, frames)
        write_text(base / f"kitti/instances_txt/{number:04d}.txt", ids)
        expected += cut(ids)
    for number, (height, width, frames) in {2: (108, 192, 10), 11: (96, 128, 5)}.items():
        ids = video(height, width, frames)
        write_pictures(base / f"mots/instances/{number:04d}", ids)
        expected += cut(ids)
    return base, expected


def write_pickle(path: Path, masks: list[Masks], protocol: int) -> Path:
    content = {"pedestrians": masks, "pedestrians_latents": [latents(each) for each in masks]}
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def test_sequences_are_cut_out_of_annotations(annotations: tuple[Path, list[Masks]], tmp_path: Path) -> None:
    base, expected = annotations
    lengths = [len(masks) for masks in expected]
    assert len(expected) > 20
    assert min(lengths) == 2
    words = ["import", "kitti-masks", str(tmp_path / "out"), "--workers", "1", "--json"]
    done = CliRunner().invoke(main, [*words, "--from", str(base / "mots"), "--from", str(base / "kitti")])
    assert done.exit_code == 0, done.output
    assert f"{len(expected)} sequences of {sum(lengths)} frames" in done.stderr
    assert "2,120" in done.stderr
    data = ident3d.ImageDataset(tmp_path / "out")
    np.testing.assert_array_equal(
        data.images(range(len(data)))[..., 0], 255 * np.concatenate(expected).astype(np.uint8)
    )
    np.testing.assert_array_equal(data.column("sequence"), np.repeat(range(len(expected)), lengths))
    np.testing.assert_array_equal(data.column("frame"), np.concatenate([range(length) for length in lengths]))
    found = data.factors.to_scene(data.latents(range(len(data))))
    np.testing.assert_allclose(found, np.concatenate(list(map(latents, expected))), atol=1e-3)
    assert data.names == ("row", "column", "area")
    assert ident3d.info(tmp_path / "out").columns == ("sequence", "frame")
    assert ident3d.verify(tmp_path / "out", show_progress=False).sound
    assert "CC BY-NC-SA 3.0" in (tmp_path / "out/README.md").read_text()


@pytest.mark.parametrize("given", [{"workers": 0}, {"workers": -3}, {"shard_size": 0}, {"shard_size": -3}])
@pytest.mark.parametrize("data", ["kitti-masks", "dsprites", "3dident"])
def test_too_few_workers_or_images_in_a_shard(
    given: dict[str, int], data: str, annotations: tuple[Path, list[Masks]], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="at least one"):
        ident3d.import_(annotations[0] / "kitti", tmp_path / "out", data=data, **QUIET | given)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_fifo_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for data in (None, "dsprites", "kitti-masks"):
        with pytest.raises(UserError, match="fifo"):
            ident3d.import_(tmp_path / "fifo", tmp_path / "out", data=data, **QUIET)


def test_pickles_of_every_protocol_are_read(annotations: tuple[Path, list[Masks]], tmp_path: Path) -> None:
    expected = annotations[1]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        content = read_plain_pickle(write_pickle(tmp_path / f"{protocol}.pickle", expected, protocol))
        for masks, due in zip(content["pedestrians"], expected, strict=True):
            np.testing.assert_array_equal(masks, due)
    with pytest.warns(UserWarning, match="2,120"):
        made = ident3d.import_(tmp_path / "4.pickle", tmp_path / "out", **QUIET)
    assert made.n == sum(map(len, expected))
    data = ident3d.ImageDataset(tmp_path / "out")
    np.testing.assert_array_equal(data.images(range(made.n))[..., 0] > 0, np.concatenate(expected))


def test_plain_values_are_read_as_they_are(tmp_path: Path) -> None:
    shared = [1, -(2**70), 0.5, "é", b"\x00\xff", None, True]
    arrays = [np.arange(6, dtype=">i4").reshape(2, 3), np.asfortranarray(np.eye(3)), np.zeros((0, 2), np.float32)]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "any").write_bytes(
            pickle.dumps({"a": shared, "b": [shared, (1, (2,))], "c": arrays, "d": (tuple(arrays),)}, protocol)
        )
        found = read_plain_pickle(tmp_path / "any")
        assert found["a"] == shared
        assert found["b"] == [shared, (1, (2,))]
        assert isinstance(found["d"][0], tuple)
        for array, due in zip([*found["c"], *found["d"][0]], 2 * arrays, strict=True):
            assert array.dtype == due.dtype
            np.testing.assert_array_equal(array, due)


class Harmful:
    """An object that touches a file when a pickle of it is loaded by Python's own reader."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def doubled(empty: bytes, before: bytes, after: bytes) -> bytes:
    """Containers, number 18 in the memory, that hold the one before twice: short here, and long when written out."""
    parts = [(b"" if after == b"\x86" else empty) + before + 2 * bytes([104, k]) + after for k in range(18)]
    return b"\x80\x04" + empty + b"\x94" + b"\x94".join(parts) + b"\x94"


UNFILLED = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR"
BYTES = b"cnumpy\ndtype\n\x8c\x02u1\x85R"
LETTERS = b"c_codecs\nencode\nh\x00\x8c\x06latin1\x86R"
HOSTILE = {
    "a call": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    "a call by stack": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.",
    "an old object": b"(ios\nsystem\n.",
    "an object of a name": b"(cos\nsystem\nS'true'\no.",
    "a new object": b"\x80\x04cos\nsystem\n)\x81.",
    "a new object with names": b"\x80\x04cos\nsystem\n)}\x92.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent object": b"Pfile\n.",
    "a buffer elsewhere": b"\x80\x05\x97.",
    "a state for a list": b"\x80\x04](\x8c\x01ab.",
    "a state for a name": b"\x80\x04cnumpy\nndarray\n}b.",
    "a name that stays": b"\x80\x04]cos\nsystem\na.",
    "a name at the end": b"\x80\x04cos\nsystem\n.",
    "an array without content": b"\x80\x04cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR.",
    "an array of a subclass": b"\x80\x04cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nmatrix\nK\x00\x85C\x01btR.",
    "bytes that are not there": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "bytes of a writable kind": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"x.",
    "a far place in the memory": b"\x80\x02]r\xff\xff\xff\x7f0.",
    "an item for a number": b"\x80\x04K\x01K\x02a.",
    "a key that is no text": b"\x80\x04}K\x01K\x02s.",
    "marks alone": b"((((.",
    "nothing on the stack": b"\x80\x04.",
    "a memory that is empty": b"\x80\x04h\x07.",
    "no end": b"\x80\x04]",
    "no pickle": b"PNG and so on",
    "an empty file": b"",
    "a name in a tuple": b"\x80\x04]cos\nsystem\n\x85a.",
    "a type that is a list of lists": doubled(b"]", b"(", b"e") + b"cnumpy\ndtype\nh\x12\x85R.",
    "a shape that is a tuple of tuples": doubled(b")", b"", b"\x86")
    + UNFILLED
    + b"(K\x01h\x12"
    + BYTES
    + b"\x89C\x01xtb.",
    "letters that become bytes again and again": b"\x80\x04\x8c\xc8" + b"x" * 200 + b"\x94" + 100 * LETTERS + b".",
    "a name as long as the file": b"\x80\x04c" + b"os" * 5000 + b"\nsystem\n)R.",
    "digits without end": b"L" + b"9" * 60_000 + b"L\n.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pickles_that_hold_anything_else_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "bad.pickle").write_bytes(HOSTILE[name])
    with pytest.raises(Refused):
        read_plain_pickle(tmp_path / "bad.pickle")
    with pytest.raises(UserError, match=r"bad\.pickle") as caught:
        ident3d.import_(tmp_path / "bad.pickle", tmp_path / "out", **QUIET)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert not (tmp_path / "out").exists()


def test_bytes_that_stand_once_are_held_once(tmp_path: Path) -> None:
    data = b"\x96" + struct.pack("<Q", 100) + b"x" * 100 + b"\x94"
    array = b"cnumpy.core.numeric\n_frombuffer\n(h\x00" + BYTES + b"Kd\x85\x8c\x01CtR"
    (tmp_path / "p").write_bytes(b"\x80\x05" + data + b"](" + 2 * array + b"e.")
    first, second = read_plain_pickle(tmp_path / "p")
    assert bytes(first) == b"x" * 100
    assert np.shares_memory(first, second)
    assert not first.flags.writeable


def test_axes_in_another_order_as_later_numpys_name_it(tmp_path: Path) -> None:
    array = b"\x80\x05cnumpy._core.numeric\n_frombuffer\n(C\x06" + bytes(range(6)) + BYTES + b"K\x02K\x03\x86"
    (tmp_path / "p").write_bytes(array + b"\x8c\x01KK\x01K\x00\x86tR.")
    np.testing.assert_array_equal(read_plain_pickle(tmp_path / "p"), [[0, 3], [1, 4], [2, 5]])
    # The order A, K without axes, and axes that are none.
    for end in (b"\x8c\x01AtR.", b"\x8c\x01KtR.", b"\x8c\x01KNtR.", b"\x8c\x01KK\x01K\x01\x86tR."):
        (tmp_path / "p").write_bytes(array + end)
        with pytest.raises(Refused):
            read_plain_pickle(tmp_path / "p")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_object_of_python_is_made(protocol: int, tmp_path: Path) -> None:
    record = np.zeros(2, [("a", "f4"), ("b", "i8")])
    for bad in (Harmful(tmp_path / "touched"), np.array([Harmful(tmp_path / "touched")]), record, np.dtype("f4"), {1}):
        (tmp_path / "bad.pickle").write_bytes(pickle.dumps({"pedestrians": [bad]}, protocol))
        with pytest.raises(Refused):
            read_plain_pickle(tmp_path / "bad.pickle")
    assert not (tmp_path / "touched").exists()


def test_damaged_pickles_give_a_sentence_or_the_same(tmp_path: Path) -> None:
    masks = [np.ones((3, 64, 64), np.bool_)]
    whole = write_pickle(tmp_path / "p", masks, 4).read_bytes()
    heads = [place for _, _, place in pickletools.genops(whole) if place is not None]
    rng, refused = np.random.default_rng(0), 0
    for k in range(300):
        data = bytearray(whole)
        # Where operations stand, most of the damage matters.
        place = int(rng.choice(heads)) + int(rng.integers(0, 3))
        data[min(place, len(data) - 1)] = int(rng.integers(0, 256))
        (tmp_path / "p").write_bytes(data[: int(rng.integers(1, len(data)))] if k % 5 == 0 else data)
        try:
            read_plain_pickle(tmp_path / "p")
        except Refused:
            refused += 1
    assert refused > 100


def test_what_is_not_the_published_content(tmp_path: Path) -> None:
    masks = np.zeros((3, 64, 64), np.bool_)
    masks[:, 10:20, 30:40] = True
    z = latents(masks)
    empty, byte = masks.copy(), masks.copy()
    empty[1] = False
    byte.view(np.uint8)[0, 10, 30] = 7
    bad: dict[str, Any] = {
        "no dict": [masks],
        "pedestrians_latents": {"pedestrians": [masks]},
        "equal length": {"pedestrians": [masks], "pedestrians_latents": []},
        "sequence 1 is no array": {"pedestrians": [masks, 3], "pedestrians_latents": [z, z]},
        r"\(3, 32, 64\)": {"pedestrians": [masks[:, :32]], "pedestrians_latents": [z]},
        "uint8": {"pedestrians": [masks.astype(np.uint8)], "pedestrians_latents": [z]},
        r"latents \(2, 3\)": {"pedestrians": [masks], "pedestrians_latents": [z[:2]]},
        "empty frame": {"pedestrians": [empty], "pedestrians_latents": [z]},
        "truth values": {"pedestrians": [byte], "pedestrians_latents": [z]},
        "frame 2 of sequence 0": {"pedestrians": [masks], "pedestrians_latents": [z + np.float32([[0], [0], [1]])]},
        # Few bytes must not become a long import.
        "more frames": {"pedestrians": 9 * [masks], "pedestrians_latents": 9 * [z]},
        "frame 0 of sequence 0": {"pedestrians": [masks], "pedestrians_latents": [z * np.float32(np.nan)]},
    }
    for facts, content in bad.items():
        (tmp_path / "bad.pkl").write_bytes(pickle.dumps(content))
        with pytest.raises(UserError, match=facts):
            ident3d.import_(tmp_path / "bad.pkl", tmp_path / "out", **QUIET)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("0 2001 2 90", "line 1"),
        ("0 2001 2 90 many 11", "line 1"),
        ("-1 2001 2 90 301 11", "frame -1"),
        ("99999999 2001 2 90 301 11", "frame 99999999"),
        ("0 99999 2 90 301 11", "object 99999"),
        ("0 2001 2 90 999999 11", "size 90×999999"),
        ("0 2001 2 9999 9999 11", "size 9999×9999"),
        ("0 2001 2 1 8000 11", "1×8000 pixels are too"),
        ("50000 2001 2 90 301 11", "frame 50000, object"),
        ("0 2001 2 90 301 11", "90×301"),
        ("0 2001 2 90 301 ~~", "letter"),
        ("0 2001 2 90 301 " + "o" * 40, "letter"),
        ("0 2001 2 90 301 éé", "line 1"),
        ("0 2001 2 301 90 11", "too narrow"),
        ("", "no lines"),
        ("0 2001 2 90 301 11\n0 2002 2 90 302 11", "sizes"),
    ],
)
def test_annotations_that_make_no_sense(line: str, facts: str, tmp_path: Path) -> None:
    (tmp_path / "kitti").mkdir()
    (tmp_path / "kitti/0000.txt").write_text(line)
    with pytest.raises(UserError, match=facts) as caught:
        ident3d.import_(tmp_path / "kitti", tmp_path / "out", **QUIET)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_pictures_that_make_no_sense(tmp_path: Path) -> None:
    folder = tmp_path / "instances" / "0002"
    folder.mkdir(parents=True)
    buffer = io.BytesIO()
    Image.new("RGB", (200, 90)).save(buffer, "PNG")
    for data, facts in {b"no picture": "000001.png", buffer.getvalue(): "RGB"}.items():
        (folder / "000001.png").write_bytes(data)
        with pytest.raises(UserError, match=facts):
            ident3d.import_(tmp_path, tmp_path / "out", **QUIET)
    write_pictures(tmp_path / "more" / "0005", np.zeros((2, 90, 200), np.int32))
    with pytest.raises(UserError, match="no pedestrian"):
        ident3d.import_(tmp_path / "more", tmp_path / "out", **QUIET)
    with pytest.raises(UserError, match=r"instances_txt/0000\.txt"):
        ident3d.import_(tmp_path / "more" / "0005", tmp_path / "out", data="kitti-masks", **QUIET)
    with pytest.raises(UserError, match="not 2"):
        ident3d.import_([tmp_path, tmp_path], tmp_path / "out", data="dsprites", **QUIET)
    with pytest.raises(UserError, match="kitti-masks"):
        ident3d.import_(tmp_path, tmp_path / "out", data="kitti", **QUIET)
    assert not (tmp_path / "out").exists()


def test_run_lengths() -> None:
    rng = np.random.default_rng(0)
    for mask in (rng.random((30, 40)) < 0.3, np.ones((5, 7), np.bool_), np.zeros((5, 7), np.bool_)):
        np.testing.assert_array_equal(decode(runs_code(mask).encode(), *mask.shape), mask)
