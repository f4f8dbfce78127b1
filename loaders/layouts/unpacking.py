"""A compressed archive as a stream of its bytes, in bounded memory whatever its compressor declares."""

import bz2
import gzip
import io
import lzma
import tarfile
from typing import IO, Any, BinaryIO, Final, cast

# Bytes for a dictionary: `xz -9` needs a quarter of it, and a hostile file may declare 4 GB.
XZ_MEMORY: Final = 2**28
BLOCK: Final = 2**16


def unpacked_stream(packed: BinaryIO) -> IO[bytes]:
    """Return the inflated bytes of a file of gzip, bzip2, xz or lzma. Raise ReadError if it is none of them."""
    start = packed.read(6)
    packed.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=packed))
    if start.startswith(b"BZh"):
        return bz2.BZ2File(packed)
    if start == b"\xfd7zXZ\0" or start.startswith(b"\x5d\0\0"):
        return io.BufferedReader(Xz(packed), BLOCK)
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
            data = self.packed.read(BLOCK) if self.decoder.needs_input else b""
            if self.decoder.needs_input and not data:
                raise EOFError("the compressed file ends in the middle")
            if part := self.decoder.decompress(data, len(room)):
                room[: len(part)] = part
                return len(part)
        return 0
