"""Small files in the forms of MNIST, CIFAR-10 and the table of transitions; how they are changed, and who reads them.

Their pins are those of the sound files, so that what is read goes through all of the reader.
"""

import gzip
import json
import pickle
import struct
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random

import numpy as np
from attack import mutations as m
from numpy.typing import NDArray
from PIL import Image

from ident3d.downloads.cifar import labels_of_text, pixels_of_picture, python_batch
from ident3d.downloads.fetch import make_folders
from ident3d.downloads.idx import read_idx
from ident3d.downloads.labelled_sets import CIFAR10, MNIST, LabelledSet
from ident3d.sprites.transitions import read_transitions

COUNT = 5
SPLITS = ("train", "test")
LABELS = {"train": "train_lables.json", "test": "test_lables.json"}
FORMS = ("idx", "idx.zip", "binary", "python", "pictures")
HEAD = "id,cat_id,t_0,t_1,t_2\n"
CELLS = (
    "", "[]", "[None]", "[(1, 2, 3)]", "[(1, 2, nan)]", "[(1e999, 2, 3)]", "[(-1, 2, 3)]", "[(1, 2, 3), None]",
    "[(1,2,3)", "[" * 5000, "[(" + "9" * 400 + ", 2, 3)]", "x" * 140_000, "'", '"', "\0",
    "[None" + ", None" * 20_000 + "]",
)  # fmt: skip

# Unusual, but in order.
FINE = ("", "[None, None]", "[(5.5, 7, 20), (1, 2, 3)]", "[(1e1, 2., 203), None]", "[ [9,9,200] ,None ]")


def arrays(name: str, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images and labels that depend on the name alone."""
    rng = np.random.default_rng(list(name.encode()))
    return rng.integers(0, 256, (COUNT, *shape), np.uint8), rng.integers(0, 10, COUNT).astype(np.uint8)


def idx(array: NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def idx_files(split: str) -> dict[str, bytes]:
    return dict(zip(MNIST.files[split], map(idx, arrays(split, (28, 28))), strict=True))


def batch_of(split: str) -> str:
    return next(iter(CIFAR10.files[split]))


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def small_sets() -> tuple[LabelledSet, LabelledSet]:
    """MNIST and CIFAR-10 with a few images each, and the pins of these."""
    digits = {split: {name: digest(data) for name, data in idx_files(split).items()} for split in SPLITS}
    pictures = {}
    for split in SPLITS:
        pixels, labels = arrays(split, (3072,))
        pictures[split] = {batch_of(split): digest(np.column_stack([labels, pixels]).tobytes())}
    images = dict.fromkeys(SPLITS, COUNT)
    return replace(MNIST, files=digits, images=images), replace(CIFAR10, files=pictures, images=images)


def make_labelled(at: Path) -> None:
    """Write the sound files."""
    for form in ("idx", "binary", "python", "pictures"):
        (at / form).mkdir(parents=True)
    with zipfile.ZipFile(at / "idx.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for split in SPLITS:
            for name, data in idx_files(split).items():
                (at / "idx" / name).write_bytes(data)
                archive.writestr(f"data/{name}.gz", gzip.compress(data))
    for split in SPLITS:
        (pixels, labels), name = arrays(split, (3072,)), batch_of(split)
        (at / f"binary/{name}.bin").write_bytes(np.column_stack([labels, pixels]).tobytes())
        content = {"data": pixels, "labels": labels.tolist(), "batch_label": b"x"}
        (at / f"python/{name}").write_bytes(pickle.dumps(content, 2))
        rows = np.ascontiguousarray(pixels.reshape(COUNT, 3, 1024).transpose(0, 2, 1))
        Image.fromarray(rows).save(at / f"pictures/{name}.png")
        (at / "pictures" / LABELS[split]).write_text(json.dumps(labels.tolist()))
    rng = np.random.default_rng(0)
    rows = [
        ",".join(f'"[({y:.3f}, {x:.3f}, {200 + k}), None]"' for k, (y, x) in enumerate(rng.uniform(9, 50, (3, 2))))
        for _ in range(30)
    ]
    (at / "table.csv").write_text(HEAD + "".join(f"{k},1,{row}\n" for k, row in enumerate(rows)))


def change_labelled(case: Path, rng: Random) -> None:
    """Change one of the files, with or without knowing what it is."""
    path = rng.choice(sorted(path for path in case.rglob("*") if path.is_file() and path.suffix != ".csv"))
    if path.suffix == ".png" and rng.random() < 0.5:
        mode = rng.choice(("RGB", "RGB", "RGBA", "L", "P", "1", "I;16"))
        height = rng.choice((0, 1, 4, 9, 10_001, 80_000))
        Image.new(mode, (rng.choice((1024, 1024, 1023, 1)), max(1, height))).save(path)
    elif path.suffix == ".json" and rng.random() < 0.5:
        path.write_bytes(rng.choice((
            b"", b"null", b"{}", b"[[1]]", b"[" * m.DEEP, b"[300]", b"[-1]", b"[1.0]", b"[true]", b'["1"]', b"[1e400]",
            b"[" + b"9" * 5000 + b"]", b"[" + b"1," * 500_000 + b"1]", b"\xff", "[1]".encode("utf-16"),
        )))  # fmt: skip
    elif "ubyte" in path.name and rng.random() < 0.5:
        sides = rng.choice((0, 1, 3, 4, 5, 255))
        shape = [rng.choice((0, 1, 5, 28, 2**16, 2**32 - 1)) for _ in range(sides)]
        path.write_bytes(bytes([0, 0, rng.choice((8, 8, 8, 9, 14)), sides]) + struct.pack(f">{sides}I", *shape))
    else:
        path.write_bytes(m.mangle(path.read_bytes(), rng))


def change_transitions(case: Path, rng: Random) -> None:
    path = case / "table.csv"
    if rng.random() < 0.4:
        path.write_bytes(m.mangle(path.read_bytes(), rng))
        return
    lines = path.read_text().splitlines(keepends=True)
    cells = [rng.choice(FINE) for _ in range(rng.choice((2, 3, 3, 3, 3, 3, 4)))]
    if rng.random() < 0.5:
        cells[-1] = rng.choice(CELLS)
    row = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
    lines[rng.randrange(1, len(lines))] = f"7,1,{row}\n"
    path.write_text("".join(lines))


def read_set(form: str, case: Path) -> None:
    """Make the folders of a set of this form."""
    digits, pictures = small_sets()
    make_folders(digits if "idx" in form else pictures, case / form, case / "out", 1, False)


def read_parts(case: Path) -> None:
    """Read what a pin would have refused before it is read."""
    for split in SPLITS:
        for name in MNIST.files[split]:
            read_idx(name, (case / "idx" / name).read_bytes())
        name = batch_of(split)
        python_batch(name, (case / "python" / name).read_bytes())
        pixels_of_picture(name, (case / f"pictures/{name}.png").read_bytes(), 32)
        labels_of_text(LABELS[split], (case / "pictures" / LABELS[split]).read_bytes())


def read_table(case: Path) -> None:
    read_transitions(case / "table.csv")
