"""Where the bytes of each file of a folder or tar archive are, without unpacking anything.

An archive's members are read in place, by offset. Those of a compressed archive are first copied into one scratch file.
No path of an archive is ever used as a path on disk.
"""

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Final, cast

from ident3d.errors import UserError
from ident3d.progress import progress_bar

MOST_MEMBERS: Final = 2_000_000
# Bytes of a long name, or of a member's further fields. A path has at most 4,096.
LARGEST_HEADER: Final = 2**16
EXTENSIONS: Final = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip
# Bytes. The largest array of the published archives has 11 MB.
LARGEST_ARRAY: Final = 2**30
LARGEST_PICTURE: Final = 2**26
# An archive may unpack to so many times its size, and the leeway. Pictures are compressed already and hardly shrink.
MOST_GROWTH: Final = 20
LEEWAY: Final = 2**28
# Bytes that stay free on the disk.
RESERVE: Final = 2**29
BLOCK: Final = 2**20
# Bytes for a dictionary of xz: `xz -9` needs a quarter of it, and a hostile file may declare 4 GB.
XZ_MEMORY, XZ_BLOCK = 2**28, 2**16


class Header(tarfile.TarInfo):
    """A member's header. One that would make tarfile read gigabytes before we see the member is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "Header":
        header = super().frombuf(buf, encoding, errors)
        if header.type in EXTENSIONS and not 0 <= header.size <= LARGEST_HEADER:
            raise UserError(f"The archive has a name or header of {header.size:,} bytes; {LARGEST_HEADER:,} are read.")
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise UserError(f"The archive's member {header.name!r} is a sparse file, which no picture is.")
        return header

    def _proc_gnusparse_10(self, *_: object) -> None:
        # A list of holes as long as the member says, which tarfile reads into memory.
        raise UserError(f"The archive's member {self.name!r} is a sparse file, which no picture is.")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A file, or a part of one: where its bytes are."""

    path: Path
    offset: int
    size: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read(self.size)
        if len(data) != self.size:
            raise UserError(f"{self.path} is cut short: it ends in the middle of a file.")
        return data


def byte_ranges(
    source: Path, wanted: Callable[[str], bool], scratch: Path, show_progress: bool = True
) -> dict[str, ByteRange]:
    """Return where each wanted file of a folder or .tar is; those of a compressed .tar are copied into `scratch`."""
    if source.is_dir():
        return files_below(source, wanted)
    if not source.is_file():
        raise UserError(f"There is no folder or archive {source}.")
    try:
        return in_tar(source, wanted) if is_plain_tar(source) else unpack(source, wanted, scratch, show_progress)
    except UserError:
        raise
    # tarfile reads some fields as numbers without asking whether they are.
    except (tarfile.TarError, ValueError, OverflowError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise UserError(f"{source} cannot be read as a tar archive, or is cut short ({error}).") from None


def files_below(folder: Path, wanted: Callable[[str], bool]) -> dict[str, ByteRange]:
    """Return the wanted files of a folder, without links, which may lead out of it."""
    found: dict[str, ByteRange] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.is_symlink() and wanted(name):
            found[name] = ByteRange(path, 0, checked_size(name, path.stat().st_size))
    return found


def is_plain_tar(path: Path) -> bool:
    try:
        with tarfile.open(path, "r:", tarinfo=Header):
            return True
    except tarfile.TarError:
        return False


def in_tar(source: Path, wanted: Callable[[str], bool]) -> dict[str, ByteRange]:
    """Return the members of an uncompressed archive, which are read in place; all must be within the file."""
    found: dict[str, ByteRange] = {}
    whole = source.stat().st_size
    with tarfile.open(source, "r:", tarinfo=Header) as archive:
        for member in safe_members(archive):
            if wanted(name := plain_name(member)):
                place = ByteRange(source, member.offset_data, checked_size(name, member.size))
                if place.offset + place.size > whole:
                    raise UserError(f"{source} is cut short: {member.name} lies beyond its end.")
                enter_member(found, name, place)
        end = ByteRange(source, archive.offset, tarfile.BLOCKSIZE)
    # tarfile takes a damaged header for the end of the archive. A real end is a block of zeros.
    if end.read().strip(b"\0"):
        raise UserError(f"{source} is cut short or damaged after {len(found):,} files.")
    return found


def unpack(source: Path, wanted: Callable[[str], bool], scratch: Path, show_progress: bool) -> dict[str, ByteRange]:
    """Copy the wanted members of a compressed archive into `scratch`, reading it once from front to back."""
    found: dict[str, ByteRange] = {}
    most = MOST_GROWTH * source.stat().st_size + LEEWAY
    with (
        source.open("rb") as packed,
        tarfile.open(fileobj=unpacked_stream(packed), mode="r|", tarinfo=Header) as archive,
        scratch.open("xb") as out,
        progress_bar(source.stat().st_size, "B of the archive", show=show_progress) as bar,
    ):
        for member in safe_members(archive):
            is_wanted = wanted(name := plain_name(member))
            if is_wanted:
                enter_member(found, name, ByteRange(scratch, out.tell(), checked_size(name, member.size)))
            # Of all members, because those that are not wanted have to be inflated too.
            if member.offset_data + member.size > most:
                raise UserError(f"{source} unpacks to more than {most:,} bytes, too much for pictures.")
            if is_wanted:
                if shutil.disk_usage(scratch.parent).free < member.size + RESERVE:
                    raise UserError(f"The disk of {scratch.parent} is too full to unpack {source}.")
                content = archive.extractfile(member)
                assert content is not None
                shutil.copyfileobj(content, out, BLOCK)
            bar.update(packed.tell() - bar.n)
    return found


def safe_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the regular files of an archive; refuse it for any other member, or one whose path leaves the folder."""
    number = 0
    while (member := archive.next()) is not None:
        # tarfile keeps every member that it has seen, for links to refer to.
        archive.members.clear()  # type: ignore[attr-defined]
        if (number := number + 1) > MOST_MEMBERS:
            raise UserError(f"The archive has more than {MOST_MEMBERS:,} members.")
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise UserError(f"The archive's member {member.name!r} would leave its folder.")
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            raise UserError(f"The archive's member {member.name!r} is not a plain file but a link, device or the like.")
        # tarfile would go back by this size, and read the same members again without end.
        if member.size < 0:
            raise UserError(f"The archive's member {member.name!r} claims {member.size:,} bytes.")
        yield member


def checked_size(name: str, size: int) -> int:
    most = LARGEST_ARRAY if name.endswith(".npy") else LARGEST_PICTURE
    if size > most:
        raise UserError(f"{name} has {size:,} bytes, more than the {most:,} that are read.")
    return size


def plain_name(member: tarfile.TarInfo) -> str:
    # Archives made by `tar .` have ./ in front of every name.
    return PurePosixPath(member.name).as_posix()


def enter_member(found: dict[str, ByteRange], name: str, place: ByteRange) -> None:
    if name in found:
        raise UserError(f"The archive holds {name} twice.")
    found[name] = place


def unpacked_stream(packed: BinaryIO) -> IO[bytes]:
    """Return the inflated bytes of a file of gzip, bzip2, xz or lzma. Raise ReadError if it is none of them."""
    start = packed.read(6)
    packed.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=packed))
    if start.startswith(b"BZh"):
        return bz2.BZ2File(packed)
    if start == b"\xfd7zXZ\0" or start.startswith(b"\x5d\0\0"):
        return io.BufferedReader(Xz(packed), XZ_BLOCK)
    raise tarfile.ReadError("neither a tar archive nor one of gzip, bzip2 or xz")


class Xz(io.RawIOBase):
    """The inflated bytes of an xz or lzma file. The standard library's own reader takes all the memory asked for."""

    def __init__(self, packed: BinaryIO) -> None:
        self.packed, self.decoder = packed, lzma.LZMADecompressor(memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        room = memoryview(out)
        while not self.decoder.eof:
            data = self.packed.read(XZ_BLOCK) if self.decoder.needs_input else b""
            if self.decoder.needs_input and not data:
                raise EOFError("the compressed file ends in the middle")
            if part := self.decoder.decompress(data, len(room)):
                room[: len(part)] = part
                return len(part)
        return 0
