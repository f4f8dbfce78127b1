"""MNIST's files: idx, a header of the array's type and sides, and then its bytes."""

import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ident3d.downloads.labelled_sets import LabelledSet
from ident3d.downloads.members import Labelled, checked
from ident3d.errors import UserError

# The code of unsigned bytes, the one type that images and labels have.
UBYTE = 8


def canonical_idx(name: str) -> str:
    """Return the canonical name of a file that is called train-images.idx3-ubyte or the like."""
    return name.rpartition("/")[2].removesuffix(".gz").replace(".idx", "-idx")


def read_idx(name: str, data: bytes) -> NDArray[np.uint8]:
    """Return the array of bytes in an idx file; raise UserError if the file is none, or is cut short."""
    sides = data[3] if len(data) > 3 else 0
    if data[:3] != bytes([0, 0, UBYTE]) or not 1 <= sides <= 4 or len(data) < 4 + 4 * sides:
        raise UserError(f"{name} is no idx file of bytes.")
    shape = struct.unpack(f">{sides}I", data[4 : 4 + 4 * sides])
    content = np.frombuffer(data, np.uint8, offset=4 + 4 * sides)
    # Of sides of 0 and of billions NumPy makes no array, whatever their product is.
    if not all(shape) or len(content) != int(np.prod(shape, dtype=np.float64)):
        raise UserError(f"{name} says that it is an array of the shape {shape}, and has {len(content):,} bytes.")
    return content.reshape(shape)


def read_mnist(wanted: LabelledSet, split: str, read: Callable[[str], bytes]) -> Labelled:
    """Return the images and labels of a split, each file checked by its hash."""
    images, labels = (
        read_idx(name, checked(wanted, name, read(name), sha256)) for name, sha256 in wanted.files[split].items()
    )
    return images, labels
