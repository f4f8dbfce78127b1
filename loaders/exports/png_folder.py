"""A folder of PNG files with a table: images/00000/00000000.png and so on, and ``latents.csv`` with a row for each."""

import csv
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ident3d.loaders.exports.columns import INDEX, Column, plain_rows
from ident3d.loaders.exports.parts import Part, blocks_of, picture_name, reader_of_shards
from ident3d.loaders.folders.folder import Folder
from ident3d.loaders.format.files import atomic_file, remove_partial_files
from ident3d.loaders.format.inside import make_below, open_plain, plain_sizes

TABLE_FILE: Final = "latents.csv"
FILE_COLUMN: Final = "file"
PICTURES_BELOW: Final = 1000
# What every PNG file begins and ends with.
PNG_HEAD: Final = b"\x89PNG\r\n\x1a\n"
PNG_END: Final = b"\0\0\0\0IEND\xaeB`\x82"


def picture_path(index: int) -> str:
    """Return where an image's picture is: a thousand of them are in one folder."""
    return f"images/{index // PICTURES_BELOW:05d}/{picture_name(index)}"


def is_whole(out: Path, path: str) -> bool:
    """Return whether a picture of an export is there, from its first bytes to its last.

    Pictures are not synced, so that a crash of the machine may leave one empty or cut short.
    """
    below, _, last = path.rpartition("/")
    if not plain_sizes(out, below, [last])[last]:
        return False
    with os.fdopen(open_plain(out, path), "rb") as file:
        head = file.read(len(PNG_HEAD))
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(PNG_END)))
        return head == PNG_HEAD and file.read() == PNG_END


def write_pictures(out: Path, folder: Folder, columns: Sequence[Column], advance: Callable[[int], object]) -> int:
    """Write all pictures that are not there yet, and the table; return how many pictures were written."""
    n, written = folder.description.n, 0
    make_below(out, "images")
    for below in range(-(-n // PICTURES_BELOW)):
        make_below(out, f"images/{below:05d}")
        remove_partial_files(out, f"images/{below:05d}")
    with atomic_file(out / TABLE_FILE, within=out) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow([FILE_COLUMN, *(column.name for column in columns)])
        # The table is written anew by each run, from shards that are read anyway; a picture is compressed once.
        due = Part(TABLE_FILE, 0, n)
        read = reader_of_shards(folder)
        for block in blocks_of(folder, due, columns, read, lambda index: not is_whole(out, picture_path(index))):
            for row in plain_rows(columns, block.table):
                table.writerow([picture_path(row[INDEX]), *row.values()])
            for index, picture in block.pictures.items():
                # Renamed when complete, but not synced: a picture is quickly made again.
                with atomic_file(out / picture_path(index), within=out, sync=False) as opened:
                    opened.write(picture)
            written += len(block.pictures)
            advance(len(block.table[INDEX]))
        text.detach()
    return written
