"""Tar files as WebDataset reads them: for each image NNNNNNNN.png and NNNNNNNN.json, one after the other."""

import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from typing import BinaryIO

from ident3d.loaders.exports.columns import Column, plain_rows
from ident3d.loaders.exports.parts import Block, picture_name


def write_tar(file: BinaryIO, blocks: Iterable[Block], columns: Sequence[Column]) -> None:
    """Write the images into a tar file. Equal images give equal bytes: a member has no date and no owner."""
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for block in blocks:
            for (index, picture), row in zip(block.pictures.items(), plain_rows(columns, block.table), strict=True):
                name = picture_name(index)
                add(archive, name, picture)
                add(archive, name.replace(".png", ".json"), json.dumps(row, ensure_ascii=False).encode())
                # tarfile keeps every member, as if somebody would ask for it.
                archive.members.clear()  # type: ignore[attr-defined]


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))
