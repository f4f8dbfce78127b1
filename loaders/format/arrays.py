"""Arrays from .npy files that may come from anyone."""

import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

MAGIC: Final = b"\x93NUMPY"
# What NumPy raises for files that are damaged, or that claim more than the memory holds.
BAD_FILE: Final = (
    OSError, ValueError, TypeError, KeyError, EOFError, OverflowError, MemoryError, RecursionError, NotImplementedError,
    RuntimeError, SyntaxError, TokenError, BadZipFile, zlib.error,
)  # fmt: skip


def load_array(file: BinaryIO) -> NDArray[Any]:
    """Return the array of a .npy file. Raise ValueError, which says why, if it is anything else."""
    # np.load would also take archives and pickles, and a pickle runs code when it is loaded.
    start = file.read(len(MAGIC))
    if start != MAGIC:
        raise ValueError("it is an archive of several arrays" if start[:2] == b"PK" else "it is no .npy file")
    file.seek(0)
    try:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)  # type: ignore[no-untyped-call]
    except BAD_FILE as error:
        raise ValueError(str(error) or type(error).__name__) from None
    return array


def map_array(path: Path) -> NDArray[Any]:
    """Return the array of a .npy file, whose numbers are read when they are used; raise ValueError like load_array."""
    try:
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")  # type: ignore[no-untyped-call]
    except BAD_FILE as error:
        raise ValueError(str(error) or type(error).__name__) from None
    return array
