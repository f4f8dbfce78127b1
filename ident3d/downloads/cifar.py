"""CIFAR-10's files in three forms: the binary and the Python version, and pictures whose rows are images.

Whichever it is, the bytes that the binary version would have are made of it, and their hash is compared.
"""

import io
import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.downloads.labelled_sets import LabelledSet
from ident3d.downloads.members import Labelled, checked
from ident3d.errors import UserError
from ident3d.loaders.format.pickled_arrays import Refused
from ident3d.loaders.format.plain_pickle import plain_pickle_of

# The labels of the pictures, spelt as they are there.
LABELS: Final = {"train": "train_lables", "test": "test_lables"}
# Images in a batch. A taller picture would be unpacked to gigabytes.
MOST: Final = 10_000
ENDINGS: Final = {".bin": "binary", "": "python", ".png": "picture", ".json": "labels"}


def canonical_cifar(name: str) -> str:
    """Return a file's name without its folder and, unless it is of another kind, its ending."""
    path = PurePosixPath(name)
    return path.stem if path.suffix in ENDINGS else path.name


def read_cifar(wanted: LabelledSet, split: str, read: Callable[[str], bytes]) -> Labelled:
    """Return the images (n, S, S, 3) and labels of a split, each batch checked by its hash."""
    batches, first = [], 0
    for name, sha256 in wanted.files[split].items():
        data = read(name)
        if data.startswith(b"\x89PNG"):
            pixels = pixels_of_picture(name, data, wanted.size)
            labels = labels_of_text(LABELS[split], read(LABELS[split]))[first : first + len(pixels)]
            data = as_binary(name, labels, pixels)
        elif data.startswith(b"\x80"):
            data = as_binary(name, *python_batch(name, data))
        rows = np.frombuffer(checked(wanted, name, data, sha256), np.uint8).reshape(-1, 1 + 3 * wanted.size**2)
        batches.append(rows)
        first += len(rows)
    rows = np.concatenate(batches)
    # Stored are all reds, then all greens, then all blues.
    images = rows[:, 1:].reshape(-1, 3, wanted.size, wanted.size).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, 0].copy()


def as_binary(name: str, labels: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> bytes:
    """Return the bytes of the binary version: for each image its label, then its channels."""
    if len(labels) != len(pixels):
        raise UserError(f"{name} has {len(pixels):,} images and {len(labels):,} labels.")
    return np.column_stack([labels, pixels]).tobytes()


def pixels_of_picture(name: str, data: bytes, size: int) -> NDArray[np.uint8]:
    """Return the channels (n, 3 S²) of a picture each of whose rows is an image, pixel by pixel."""
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as picture:
            if picture.mode != "RGB" or picture.width != size**2 or picture.height > MOST:
                raise UserError(f"{name} is no picture whose rows are {MOST:,} images of {size} pixels in colours.")
            rows = np.asarray(picture)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{name} is a picture that cannot be read ({error}).") from None
    return rows.transpose(0, 2, 1).reshape(len(rows), -1)


def labels_of_text(name: str, data: bytes) -> NDArray[np.uint8]:
    """Return the labels of a list in JSON."""
    try:
        labels = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name} is no list of labels ({error}).") from None
    if not are_labels(labels):
        raise UserError(f"{name} is no list of labels, which are numbers from 0 to 255.")
    return np.array(labels, np.uint8)


def are_labels(found: object) -> bool:
    return isinstance(found, list) and all(type(label) is int and 0 <= label <= 255 for label in found)


def python_batch(name: str, data: bytes) -> Labelled:
    """Return labels and channels of a batch of the Python version, which is a pickle; nothing of it is run."""
    try:
        content = plain_pickle_of(data)
        if not isinstance(content, dict) or not {"data", "labels"} <= set(content):
            raise Refused("it is no dict with data and labels")
        pixels, labels = content["data"], content["labels"]
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2:
            raise Refused("its data are no table of bytes")
        if not are_labels(labels):
            raise Refused("its labels are no list of numbers")
    except Refused as error:
        raise UserError(f"{name} is no batch of CIFAR-10: {error}.") from None
    return np.array(labels, np.uint8), pixels
