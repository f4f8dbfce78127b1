"""Importing the published dSprites: an .npz archive of images and latents, read as a stream and without pickle."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.format.arrays import BAD_FILE, load_array
from ident3d.loaders.layouts.array_table import table_of
from ident3d.loaders.layouts.arrays import settings_of, write_images
from ident3d.loaders.layouts.pictures import Imported
from ident3d.loaders.layouts.pixel_blocks import ArrayImages
from ident3d.machine import cores
from ident3d.sprites.dsprites import FACTORS, Floats, grid_size, images, values_at
from ident3d.sprites.folder import MATERIAL, SHARD_IMAGES
from ident3d.sprites.generate import CHUNK_IMAGES, ORIGIN
from ident3d.sprites.outlines import SIZE

# The member `metadata` is a pickle, which runs code when it is loaded. It is never read.
IMAGES, VALUES, CLASSES = "imgs", "latents_values", "latents_classes"
# A colour that is always 1 comes before the five factors.
COLUMNS: Final = 1 + FACTORS.n_raw
# Bytes of the largest table that the set can have, and of a header.
LARGEST_TABLE: Final = 8 * COLUMNS * grid_size(FACTORS) + 4096
# Published images differ from ours in a pixel or two of their outlines. Those of neighbours differ in twenty.
MOST_WRONG: Final = 16
LICENCE: Final = "Apache-2.0"


class SpriteStream:
    """The images of the archive, 0 and 255. Slices are read in order; one that lies further back starts anew.

    Each image is compared with the sprite of its latents, so that images and rows that do not belong together, or
    another archive of the same form, are noticed before anything is written.
    """

    def __init__(self, path: Path, values: Floats) -> None:
        self.path, self.values, self.shape = path, values, (len(values), SIZE, SIZE)
        self.stream: IO[bytes] | None = None
        self.next, self.opened = 0, ExitStack()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        first, stop, _ = rows.indices(len(self))
        with as_sentence(self.path):
            if self.stream is None or first < self.next:
                self.close()
                self.stream, self.next = open_images(self.path, self.shape, self.opened), 0
            # Nothing can be skipped in a compressed member. Images that are there already are read and dropped.
            while self.next < first:
                self._read(min(SHARD_IMAGES, first - self.next))
            pixels = self._read(stop - first)
        wrong = (pixels != images(self.values[first:stop])).sum((1, 2))
        if len(bad := np.flatnonzero((wrong > MOST_WRONG) | (pixels > 1).any((1, 2)))):
            raise UserError(
                f"{self.path} is not the published dSprites: image {first + bad[0]} differs in {wrong[bad[0]]} pixels "
                "from the sprite that its latents describe."
            )
        return pixels * np.uint8(255)

    def close(self) -> None:
        self.opened.close()

    def _read(self, count: int) -> NDArray[np.uint8]:
        assert self.stream is not None
        data = self.stream.read(count * SIZE**2)
        if len(data) < count * SIZE**2:
            raise ValueError(f"{IMAGES} ends in image {self.next + len(data) // SIZE**2}")
        self.next += count
        return np.frombuffer(data, np.uint8).reshape(count, SIZE, SIZE)


def import_dsprites(
    source: Path,
    out: Path,
    *,
    split: str | None,
    licence: str | None,
    citation: str | None,
    workers: int | None,
    shard_size: int | None,
    show_progress: bool,
) -> Imported:
    """Make a dataset folder from the published .npz, or from one of the same form with some of its images.

    Factors and order are those of `ident3d.dsprites`. All images are compared with the sprites that their latents
    describe before anything is written, and an import keeps what an interrupted one has finished.
    """
    started = datetime.now(UTC)
    with as_sentence(source):
        values = read_values(source)
    table, declared = table_of(values, None, None, FACTORS, None, None, {})
    with closing(SpriteStream(source, values)) as stream:
        pixels = ArrayImages(stream, unit=False)
        settings = settings_of(pixels, table, declared, split or "train", show_progress)
        settings["source"] |= {"layout": "dsprites", "from": source.name}
        settings |= {"material": MATERIAL, "images_per_chunk": CHUNK_IMAGES}
        settings["origin"] = ORIGIN | {
            "source": f"the published file {source.name}",
            "licence": licence or LICENCE,
            "citation": citation or ORIGIN["citation"],
        }
        return write_images(pixels, table, settings, out, shard_size, workers or cores(), show_progress, started)


def read_values(path: Path) -> Floats:
    """Return the values (n, 5) of the factors. Values, classes and, if all images are there, order are checked."""
    with zipfile.ZipFile(path) as archive:
        if missing := [name for name in (IMAGES, VALUES, CLASSES) if f"{name}.npy" not in archive.namelist()]:
            raise UserError(f"{path} is not the published dSprites: it has no {missing[0]}.")
        values, places = (read_table(archive, name) for name in (VALUES, CLASSES))
    if not (values.shape == places.shape == (len(values), COLUMNS) and 0 < len(values) <= grid_size(FACTORS)):
        raise UserError(
            f"{path}: {VALUES} and {CLASSES} have {COLUMNS} columns, and a row for each of at most "
            f"{grid_size(FACTORS):,} images, not the shapes {values.shape} and {places.shape}."
        )
    table = values.astype(np.float64)
    table[:, 1] -= 1  # shapes are numbered from 1
    try:
        known = FACTORS.indices(FACTORS.to_raw(table[:, 1:]))
    except UserError as error:
        raise UserError(f"{path} is not the published dSprites: {error}") from None
    due = np.column_stack([np.zeros(len(known), np.int64), known])
    if len(bad := np.flatnonzero((due != places).any(1) | (table[:, 0] != 1))):
        raise UserError(f"{path}: {CLASSES} of image {bad[0]} are not the numbers of its {VALUES}.")
    if len(known) == grid_size(FACTORS):
        sizes = [len(factor.values) for factor in FACTORS.factors]
        number = np.ravel_multi_index(tuple(known.T), sizes)
        if len(bad := np.flatnonzero(number != np.arange(len(number)))):
            raise UserError(f"{path}: image {bad[0]} is number {number[bad[0]]} of the published order.")
    return values_at(FACTORS, known.T)


def read_table(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read a small member as an array of numbers."""
    with archive.open(f"{name}.npy") as member:
        data = member.read(LARGEST_TABLE + 1)
    if len(data) > LARGEST_TABLE:
        raise ValueError(f"{name} has more than {LARGEST_TABLE:,} bytes")
    table = load_array(io.BytesIO(data))
    if table.dtype.kind not in "fiu" or table.ndim != 2:
        raise ValueError(f"{name} is no table of numbers")
    return table


def open_images(path: Path, shape: tuple[int, ...], opened: ExitStack) -> IO[bytes]:
    """Return the stream of the images' bytes, behind the header, which must declare bytes of this shape."""
    archive = opened.enter_context(zipfile.ZipFile(path))
    member = opened.enter_context(archive.open(f"{IMAGES}.npy"))
    version = np.lib.format.read_magic(member)  # type: ignore[no-untyped-call]
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    found, is_fortran, dtype = read(member)  # type: ignore[no-untyped-call]
    if found != shape or is_fortran or dtype != np.uint8:
        raise ValueError(f"{IMAGES} is {dtype} of the shape {found}, not uint8 of {shape}")
    return member


@contextmanager
def as_sentence(path: Path) -> Iterator[None]:
    """Turn what NumPy and zipfile raise for other or damaged files into one sentence."""
    try:
        yield
    except UserError:
        raise
    except BAD_FILE as error:
        raise UserError(f"{path} is not the published dSprites, or is damaged ({error}).") from None
