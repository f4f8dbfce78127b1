"""The files of an export, read from front to back: pictures as bytes, and the columns as they stand there."""

import csv
import os
import re
import tarfile
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ident3d.errors import UserError
from ident3d.loaders.exports.columns import FLOAT, INT
from ident3d.loaders.exports.parquet import pyarrow
from ident3d.loaders.exports.parts import picture_name
from ident3d.loaders.exports.png_folder import FILE_COLUMN, TABLE_FILE, picture_path
from ident3d.loaders.exports.record import ExportedSplit
from ident3d.loaders.format.files import parse_json
from ident3d.loaders.format.inside import check_plain, open_plain, plain_sizes, read_plain
from ident3d.loaders.stores.tar_members import LARGEST_PICTURE, ByteRange, in_tar

FILE_NAME: Final = re.compile(r"(data/)?[a-zA-Z0-9]+-[0-9]+(-of-[0-9]+)?\.(parquet|tar)", re.ASCII)
# What the libraries raise at a file that is not what it should be.
READING: Final = (
    OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, OverflowError, tarfile.TarError,
)  # fmt: skip
# Bytes of a group of rows in a Parquet file. Ours have 32 MB.
LARGEST_GROUP: Final = 2**30
# Rows of it that are made at a time.
BATCH: Final = 16


@dataclass(frozen=True)
class Given:
    """Some images as they stand in an export's file of this name, with the values of every column."""

    name: str
    pictures: list[bytes]
    table: dict[str, list[Any]]


class Reader(Protocol):
    """Reads images of an export; the next ones are read fastest."""

    def read(self, first: int, count: int) -> Given: ...


def reader_of(source: Path, to: str, split: ExportedSplit) -> Reader:
    """Return what reads the files of a split; UserError if one of them is missing or has another size."""
    for name, due in split.files.items():
        below, _, last = name.rpartition("/")
        if not (name == TABLE_FILE if to == "png" else FILE_NAME.fullmatch(name)):
            raise UserError(f"{source / 'dataset.json'} names a file {name!r}, which no export has.")
        # A table may be written anew by another program.
        size = plain_sizes(source, below, [last])[last]
        if size is None or (to != "png" and size != due):
            what = "is missing" if size is None else f"has {size:,} bytes instead of {due:,}"
            raise UserError(f"{source / name} {what}; export or fetch it again.")
    if to == "png":
        return Pictures(source, split)
    parts = -(-split.n // split.part_size)
    if len(split.files) != parts:
        raise UserError(f"{source / 'dataset.json'} names {len(split.files)} files for {parts}.")
    return (Tars if to == "webdataset" else Parquet)(source, split)


class Pictures:
    """A folder of PNG files. The table is read at once, as numbers: it takes 8 bytes a value."""

    def __init__(self, source: Path, split: ExportedSplit) -> None:
        self.source, self.columns = source, split.columns
        self.table: dict[str, Any] = {c.name: array("d" if c.kind == FLOAT else "q") for c in self.columns}
        place = source / TABLE_FILE
        with os.fdopen(open_plain(source, TABLE_FILE), encoding="utf-8", newline="") as file:
            try:
                rows = self._take(csv.reader(file))
            except (csv.Error, ValueError, OverflowError) as error:
                raise UserError(f"{place} cannot be read: {error}.") from None
        if rows != split.n:
            raise UserError(f"{place} has {rows:,} rows, and there are {split.n:,} images.")

    def _take(self, rows: Any) -> int:
        head: list[str] = next(rows, [])
        if head != [FILE_COLUMN, *self.table]:
            missing = sorted({FILE_COLUMN, *self.table} - set(head))
            raise ValueError(f"it lacks {missing[0]}" if missing else "its columns are not in their order")
        numbers = [{name: k for k, name in enumerate(column.names)} for column in self.columns]
        n = 0
        for n, (file, *values) in enumerate(rows, start=1):
            if file != picture_path(n - 1) or len(values) != len(self.columns):
                raise ValueError(f"row {n} is not that of {picture_path(n - 1)}")
            for column, known, value in zip(self.columns, numbers, values, strict=True):
                if known and value not in known:
                    raise ValueError(f"{column.name} in row {n} is {value!r}, none of {', '.join(known)}")
                number = known[value] if known else int(value) if column.kind == INT else float(value)
                self.table[column.name].append(number)
        return n

    def read(self, first: int, count: int) -> Given:
        pictures = []
        for index in range(first, first + count):
            try:
                pictures.append(read_plain(self.source, picture_path(index), LARGEST_PICTURE))
            except FileNotFoundError:
                raise UserError(f"{self.source / picture_path(index)} is missing.") from None
        rows = slice(first, first + count)
        return Given(str(self.source), pictures, {name: list(values[rows]) for name, values in self.table.items()})


class InParts(ABC):
    """Images in files of so many; one file, or one group of its rows, is known at a time."""

    def __init__(self, source: Path, split: ExportedSplit) -> None:
        self.source, self.columns, self.n = source, split.columns, split.n
        self.names, self.part_size = list(split.files), split.part_size

    def read(self, first: int, count: int) -> Given:
        """Return images first … first+count-1, which may lie in several files."""
        pictures: list[bytes] = []
        table: dict[str, list[Any]] = {column.name: [] for column in self.columns}
        name, stop = "", first + count
        while first < stop:
            k = first // self.part_size
            end = min(stop, (k + 1) * self.part_size)
            name = self.names[k]
            try:
                some, values = self.rows(name, k, first, end)
                if len(some) != end - first:
                    raise ValueError(f"it lacks images of {first} to {end - 1}")
            except UserError:
                raise
            except READING as error:
                raise UserError(f"{self.source / name} cannot be read, or is not as exported ({error}).") from None
            pictures += some
            for column in self.columns:
                table[column.name] += values[column.name]
            first = end
        return Given(str(self.source / name), pictures, table)

    @abstractmethod
    def rows(self, name: str, k: int, first: int, stop: int) -> tuple[list[bytes], dict[str, list[Any]]]:
        """Return images first … stop-1 of the k-th file, which begins with image k · part_size."""


class Tars(InParts):
    """Images in tar files."""

    known: tuple[str, dict[str, ByteRange]] = ("", {})

    def rows(self, name: str, k: int, first: int, stop: int) -> tuple[list[bytes], dict[str, list[Any]]]:
        if self.known[0] != name:
            check_plain(self.source, name)
            self.known = name, in_tar(self.source / name, lambda member: member.endswith((".png", ".json")))
        members = self.known[1]
        names = [picture_name(index) for index in range(first, stop)]
        listed = [parse_json(members[each.replace(".png", ".json")].read()) for each in names]
        values = {column.name: [row[column.name] for row in listed] for column in self.columns}
        return [members[each].read() for each in names], values


class Parquet(InParts):
    """Images in Parquet files."""

    known: tuple[str, int, Any] = ("", 0, None)

    def rows(self, name: str, k: int, first: int, stop: int) -> tuple[list[bytes], dict[str, list[Any]]]:
        try:
            return self.of_groups(name, k, first, stop)
        except pyarrow().ArrowException as error:
            raise ValueError(str(error)) from None

    def of_groups(self, name: str, k: int, first: int, stop: int) -> tuple[list[bytes], dict[str, list[Any]]]:
        """Return images first … stop-1 of the file, out of the groups of rows that hold them."""
        pictures: list[bytes] = []
        table: dict[str, list[Any]] = {column.name: [] for column in self.columns}
        with os.fdopen(open_plain(self.source, name), "rb") as file:
            opened = pyarrow().parquet.ParquetFile(file)
            begins = k * self.part_size
            for number in range(opened.num_row_groups):
                rows = opened.metadata.row_group(number)
                ends = begins + rows.num_rows
                if ends > first and begins < stop:
                    group = self.group(opened, name, number)
                    part = group.slice(max(first - begins, 0), min(stop, ends) - max(first, begins))
                    pictures += [each["bytes"] for each in part.column("image").to_pylist()]
                    for column in self.columns:
                        table[column.name] += part.column(column.name).to_pylist()
                begins = ends
        if not all(type(each) is bytes for each in pictures):
            raise ValueError("its pictures are no bytes")
        return pictures, table

    def group(self, opened: Any, name: str, number: int) -> Any:
        """Return a group of rows; the last one is kept, because the next images are in it too."""
        if self.known[:2] != (name, number):
            names = ["image", *(column.name for column in self.columns)]
            read, size = list[Any](), 0
            # What a file says of its own size proves nothing: a picture that is stored once may stand in any number of
            # rows. So few rows are made at a time, and counted.
            for batch in opened.iter_batches(BATCH, row_groups=[number], columns=names):
                read.append(batch)
                size += batch.nbytes
                if size > LARGEST_GROUP:
                    raise ValueError(f"a group of its rows has more than {LARGEST_GROUP:,} bytes")
            self.known = name, number, pyarrow().Table.from_batches(read)
        return self.known[2]
