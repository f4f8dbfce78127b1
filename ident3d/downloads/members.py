"""The files of a published set inside a folder, a .tar, a compressed .tar or a wheel, by their canonical names."""

import hashlib
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.downloads.labelled_sets import LabelledSet
from ident3d.errors import UserError
from ident3d.loaders.stores.tar_members import byte_ranges

# Images and their labels.
Labelled: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.uint8]]
# Bytes. The largest file, MNIST's training images, has 47 MB.
LARGEST_FILE: Final = 2**26


def members_of(source: Path, canonical: Callable[[str], str], names: set[str]) -> dict[str, bytes]:
    """Return the wanted files' bytes by their canonical names, however they are packed; gzipped ones are inflated."""
    taken: set[str] = set()

    # Asked of each file before its bytes are read, so that no archive makes us inflate one thing many times.
    def is_wanted(name: str) -> bool:
        if (known := canonical(name)) in taken:
            raise UserError(f"{source} holds {known} twice.")
        if known in names:
            taken.add(known)
        return known in names

    with tempfile.TemporaryDirectory(prefix="ident3d-") as folder:
        if source.is_file() and zipfile.is_zipfile(source):
            found = in_zip(source, is_wanted)
        else:
            places = byte_ranges(source, is_wanted, Path(folder) / "members", False)
            found = {name: place.read() for name, place in places.items()}
    return {canonical(name): inflated(name, data) if name.endswith(".gz") else data for name, data in found.items()}


def in_zip(source: Path, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the wanted members of a .zip or wheel; their names are never paths on disk."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(source) as archive:
            wanted = [info for info in archive.infolist() if info.filename[-1:] != "/" and is_wanted(info.filename)]
            for info in wanted:
                if info.file_size > LARGEST_FILE:
                    raise UserError(f"{info.filename} in {source} has more than {LARGEST_FILE:,} bytes.")
                # zipfile inflates the other methods without a limit.
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise UserError(f"{info.filename} in {source} is not packed by deflate, the usual method of a zip.")
                # A size that is a lie: without it in `read`, all that comes would be inflated.
                with archive.open(info) as member:
                    found[info.filename] = member.read(info.file_size)
    except UserError:
        raise
    # zipfile takes offsets and sizes as they are, and seeks and unpacks with them.
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, OSError, RuntimeError, EOFError) as error:
        raise UserError(f"{source} cannot be read, or is damaged ({error}).") from None
    return found


def inflated(name: str, data: bytes) -> bytes:
    """Return the bytes of a gzipped file, no more than any of these files has."""
    try:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        content = unpacker.decompress(data, LARGEST_FILE)
    except zlib.error as error:
        raise UserError(f"{name} is no gzipped file, or is damaged ({error}).") from None
    if not unpacker.eof:
        raise UserError(f"{name} is cut short, or has more than {LARGEST_FILE:,} bytes.")
    return content


def checked(wanted: LabelledSet, name: str, data: bytes, sha256: str) -> bytes:
    """Return a file's bytes if they are the published ones; raise UserError if their hash differs."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UserError(f"{name} is not that of the published {wanted.title}: its sha256 differs.")
    return data
