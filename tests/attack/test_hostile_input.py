"""Files that claim gigabytes, nest without end or have names that are no text: each is one sentence, below the cap."""

import json
import lzma
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capped import capped
from PIL import Image
from synthetic import make_dataset

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.packed import PACKED_FILE, pack
from ident3d.loaders.format.description import digest
from ident3d.loaders.format.files import LARGEST_JSON, parse_json, read_json, write_json
from ident3d.loaders.layouts.importing import import_
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop.log_file import read_log

GIGABYTES = 4 * 2**30
READ = """
from ident3d.latents import load_model
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.latents_source import read_npy
from ident3d.loaders.layouts.importing import import_
from ident3d.training.images.settings import TrainSettings
from ident3d.training.loop.log_file import read_log
base = Path(sys.argv[1])
cap()
for archive in sorted(base.glob("*.tar*")):
    attempt(import_, archive, base / "out", show_progress=False)
attempt(open_folder, base / "description")
attempt(open_folder, base / "manifest")
attempt(read_npy, base / "latents.npy")
attempt(load_model, base / "dots.toml")
attempt(load_model, base / "brackets.toml")
attempt(lambda: ImageDataset(base / "packed").packed)
"""

DECODE = """
from ident3d.loaders.layouts.kitti_annotations import read_picture
from ident3d.loaders.layouts.pictures import decode
from ident3d.loaders.stores.tar_members import ByteRange
base = Path(sys.argv[1])
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000, used + 300_000_000))
colour = base / "colour.png"
attempt(decode, ByteRange(colour, 0, colour.stat().st_size), None)
attempt(read_picture, base / "grey.png")
"""


def header(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("images/000000.png")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def sparse(path: Path, start: bytes = b"") -> Path:
    """A file of gigabytes that takes no room on the disk."""
    path.write_bytes(start)
    os.truncate(path, GIGABYTES)
    return path


def test_memory_stays_below_the_cap(tmp_path: Path) -> None:
    for name, kind in {
        "name": tarfile.GNUTYPE_LONGNAME,
        "link": tarfile.GNUTYPE_LONGLINK,
        "pax": tarfile.XHDTYPE,
    }.items():
        sparse(tmp_path / f"{name}.tar", header(kind, GIGABYTES - 4096))
    # A list of holes as long as the member: one number a line.
    fields = tarfile.TarInfo("x").create_pax_header(
        {**tarfile.TarInfo("x").get_info(), "size": GIGABYTES - 8192, "name": "images/000000.png"}, "utf-8"
    )
    holes = tarfile.TarInfo.create_pax_global_header({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    sparse(tmp_path / "holes.tar", holes + fields + b"9" * 100)
    # The dictionary of an lzma file, as its header declares it: four gigabytes.
    data = lzma.compress(bytes(10_240), lzma.FORMAT_ALONE)
    (tmp_path / "dictionary.tar.lzma").write_bytes(data[:1] + b"\xff\xff\xff\xff" + data[5:])
    for name, file in {"description": "dataset.json", "manifest": "shards.jsonl", "packed": PACKED_FILE}.items():
        path = make_dataset(tmp_path / name, 8, size=8)
        if name == "packed":
            pack(path, show_progress=False)
        sparse(path / file)
    lie = b"\x93NUMPY\x01\0v\0" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 10)}".ljust(118)
    (tmp_path / "latents.npy").write_bytes(lie)
    (tmp_path / "dots.toml").write_text("a" + ".a" * 49_000 + " = 1")
    (tmp_path / "brackets.toml").write_text("a = " + "[" * 49_000)
    found = capped(READ, tmp_path)
    assert [line.partition(" ")[0] for line in found] == ["refused"] * 10 + ["result"]
    # A packed file without a record is not used; the shards hold the same.
    assert found[-1] == "result False"


def test_a_picture_larger_than_the_memory_is_one_sentence(tmp_path: Path) -> None:
    """A black picture of 8192 × 8192 is 0.2 MB of PNG, and 800 MB while it is decoded."""
    Image.new("RGB", (8192, 8192)).save(tmp_path / "colour.png")
    Image.new("I;16", (8192, 8192)).save(tmp_path / "grey.png")
    found = capped(DECODE, tmp_path)
    assert [line.partition(" ")[0] for line in found] == ["refused"] * 2
    assert all("memory" in line for line in found)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"[" * 100_000, "deeply"),
        (b'{"a":' * 100_000, "deeply"),
        (b"[1]", "list"),
        (b"null", "NoneType"),
        (b"\xff{}", "utf-8|UTF-8"),
        (b'{"a": "\\ud800"}', "surrogates"),
        (b'{"a": ' + b"9" * 5000 + b"}", "4300|digits"),
    ],
)
def test_json_that_is_no_plain_object_is_a_value_error(data: bytes, fact: str) -> None:
    with pytest.raises(ValueError, match=fact):
        parse_json(data)


def test_a_record_larger_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "large.json")
    with pytest.raises(ValueError, match=f"{LARGEST_JSON:,}"):
        read_json(path)
    path.write_bytes(b" " * (LARGEST_JSON - 2) + b"{}")
    assert read_json(path) == {}


def test_images_that_a_description_claims_are_not_made_room_for(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 8, size=8, shard_size=8)
    pack(path, show_progress=False)
    content = json.loads((path / PACKED_FILE).read_text())
    content.pop("digest")
    content["crc32"] = content["crc32"][:-8]
    (path / PACKED_FILE).write_text(json.dumps(content | {"digest": digest(content)}))
    # Checksums of other images than these are none.
    np.testing.assert_array_equal(
        ImageDataset(path, packed=True).images([7]), ImageDataset(path, packed=False).images([7])
    )


def test_a_name_that_is_not_utf_8_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"set-\xff")
    for words in (
        ["info", name],
        ["render", "--n", "1", "--out", name],
        ["evaluate", name],
        ["score", "--codes", name],
    ):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert r"set-\xff" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"run\.json.*\\udcff"):
        write_json(tmp_path / "run.json", {"data": {"path": str(tmp_path / name)}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dim", [10**12, 0, -1])
def test_a_run_cannot_ask_for_an_encoder_that_fills_the_memory(dim: int) -> None:
    recorded = TrainSettings(space="box", loss="delta", negatives="batch", size=16).as_dict()
    assert TrainSettings.from_dict(recorded | {"dim": 10}).dim == 10
    with pytest.raises(TypeError, match=f"dim is {dim}"):
        TrainSettings.from_dict(recorded | {"dim": dim})


@pytest.mark.parametrize(
    "change",
    [
        {"pixel_mean": [0.5, 0.5]},
        {"pixel_std": None},
        {"pixel_mean": [1e300, 0, 0]},
        {"settings": {"source": {"kind": "draw", "split": "train"}}},
        {"settings": {"source": {"kind": "import", "from": 3, "split": ""}}},
    ],
)
def test_a_description_lacks_nothing_that_is_computed_with(tmp_path: Path, change: dict[str, Any]) -> None:
    path = make_dataset(tmp_path / "set", 4, size=8) / "dataset.json"
    content = json.loads(path.read_text())
    content.pop("digest")
    content["settings"] |= change.pop("settings", {})
    content |= change
    path.write_text(json.dumps(content | {"digest": digest(content)}))
    with pytest.raises(UserError, match=r"dataset\.json .*(pixel_mean|pixel_std|seed|from)"):
        ImageDataset(path.parent)


def test_lines_of_a_log_that_no_run_wrote_are_left_out(tmp_path: Path) -> None:
    sound = {"step": 1, "loss": 2.5, "seconds": 0.1, "precision": [[1.0]]}
    wrong = [{"seconds": None}, {"seconds": [1]}, {"loss": "x"}, {"r2": 10**400}, {"step": 1.0}]
    lines = [json.dumps(line).encode() for line in (sound, *(sound | change for change in wrong))]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join([*lines, b"\xff", b"[" * 100_000]))
    assert read_log(tmp_path) == [sound]


def test_a_field_of_a_tar_header_that_is_no_number_is_one_sentence(tmp_path: Path) -> None:
    info = tarfile.TarInfo("images/000000.png")
    info.pax_headers = {"GNU.sparse.size": "x"}
    with tarfile.open(tmp_path / "published.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info)
    with pytest.raises(UserError, match=r"published\.tar"):
        import_(tmp_path / "published.tar", tmp_path / "out", show_progress=False)
