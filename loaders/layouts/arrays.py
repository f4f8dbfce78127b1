"""``from_arrays``: make a dataset folder of anybody's images, with their latents, classes and further columns."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.streams import SPLITS
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors
from ident3d.loaders.cards.facts import ARRAYS, NOT_SAID
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.judge import shard_names
from ident3d.loaders.folders.lifecycle import Job, remove_dataset, target_description
from ident3d.loaders.folders.make import check_amounts, make_shards
from ident3d.loaders.format.aside import Aside
from ident3d.loaders.format.description import SHARDS, default_shard_size, read_description
from ident3d.loaders.format.files import new_folder, remove_partial_files, sha256
from ident3d.loaders.format.shard import Shard
from ident3d.loaders.format.shard_layout import LARGEST_CHUNK
from ident3d.loaders.layouts.array_table import ImageTable, empty, table_of, table_rows
from ident3d.loaders.layouts.pictures import Imported
from ident3d.loaders.layouts.pixel_blocks import ArrayImages, Images, images_of
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.store import local_folder

# Small images: so many bytes of them, and so many of them, are in a shard.
SHARD_BYTES, MOST_IN_A_SHARD = 2**22, 4096


def from_arrays(
    images: Any,
    latents: ArrayLike | None,
    out: Path | str,
    *,
    names: Sequence[str] | None = None,
    kinds: Sequence[str] | Mapping[str, str] | None = None,
    factors: Factors | Iterable[Factor] | None = None,
    classes: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
    unit: bool = False,
    split: str = "train",
    name: str | None = None,
    source: str = NOT_SAID,
    licence: str = NOT_SAID,
    citation: str = NOT_SAID,
    shard_size: int | None = None,
    images_per_chunk: int = 1,
    workers: int = 1,
    show_progress: bool = True,
) -> Imported:
    """Make a dataset folder of images and their latents, which pairs, training and scores then work on.

    Images are square, grey or in colours. All of an array is checked before anything is written, and the same call goes
    on with what an interrupted one left. Blocks of an iterator are read once, written as they come, and begun anew.

    Args:
        images: An array or memory map (n, S, S), (n, S, S, 1) or (n, S, S, 3), or an iterator of such blocks. Whole
            numbers from 0 to 255, or truth values.
        latents: Values of the factors (n, d) in scene units; None if there are none. Of a categorical factor with names
            it is the number of the name in the list.
        out: A new dataset folder.
        names: A name for each factor; by default z0, z1, and so on.
        kinds: A kind for each factor, or by name: box (the default), periodic (in radians) or categorical. The range,
            and the values if they are few, are those of the latents.
        factors: The factors themselves, in place of names and kinds: with their ranges, values and groups.
        classes: A class for each image (n,): numbers from 0, or names.
        class_names: The names of classes 0, 1, and so on; by default those of `factors`, the names in `classes`, or
            the numbers.
        columns: sequence, frame, instance, view or environment → a whole number for each image (n,).
        unit: The images are numbers from 0 to 1, and are stored as round(255 · v).
        split: "train" or "test": what `train` and `evaluate` take the folder for.
        name: The name of the data on the card; by default that of the folder.
        source: Where the data come from, for the card.
        licence: Their licence, for the card.
        citation: How to cite them, for the card.
        shard_size: Images in a shard; by default 4 MB of them.
        images_per_chunk: So many images are compressed together. With 32, black and white images that resemble their
            neighbours take a fifth of the disk; to read one of them, all are inflated.
        workers: Processes that compress shards. A script that uses several needs ``if __name__ == "__main__":``.
        show_progress: Show a progress bar.

    Returns:
        An `Imported`: the folder, and how many images were written.

    Example:
        >>> import ident3d, numpy as np
        >>> x, y = np.meshgrid(np.arange(8), np.arange(8))
        >>> z = np.column_stack([x.ravel(), y.ravel()])
        >>> images = np.zeros((64, 28, 28), np.uint8)
        >>> for image, (column, row) in zip(images, 3 * z):
        ...     image[row : row + 7, column : column + 7] = 255
        >>> made = ident3d.from_arrays(images, z, "squares", names=["x", "y"], show_progress=False)
        >>> ident3d.ImageDataset("squares").factors.factors[0].values
        (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    """
    started, out = datetime.now(UTC), local_folder(out)
    check_amounts(workers, shard_size)
    table, declared = table_of(latents, names, kinds, factors, classes, class_names, columns or {})
    pixels = images_of(images, table_rows(table), unit)
    if table_rows(table) not in (None, pixels.n):
        raise UserError(f"There are {pixels.n} images and {table_rows(table)} rows of latents, classes or columns.")
    table = table if len(table.raw) else replace(table, raw=empty(pixels.n), scene=empty(pixels.n))
    if not 1 <= images_per_chunk <= max(1, LARGEST_CHUNK // prod(pixels.shape)):
        most = max(1, LARGEST_CHUNK // prod(pixels.shape))
        raise UserError(f"From 1 to {most} images of this size are compressed together, not {images_per_chunk}.")
    settings = settings_of(pixels, table, declared, split, show_progress)
    if images_per_chunk > 1:
        settings["images_per_chunk"] = images_per_chunk
    origin = {"source": source, "licence": licence, "citation": citation}
    settings["origin"] = {"name": name or out.resolve().name} | origin
    return write_images(pixels, table, settings, out, shard_size, workers, show_progress, started)


def write_images(
    pixels: Images,
    table: ImageTable,
    settings: dict[str, Any],
    out: Path,
    shard_size: int | None,
    workers: int,
    show_progress: bool,
    started: datetime,
) -> Imported:
    """Make the dataset folder of these settings, or go on with what an interrupted call left of it."""
    with new_folder(out), lease(out) as held:
        remove_partial_files(out)
        # Blocks cannot be compared with those of an earlier call, so that nothing unfinished is kept of either. What is
        # not such a call's, another dataset or somebody's folder, is refused: below, everything of a dataset goes.
        blocks = not isinstance(pixels, ArrayImages)
        if blocks:
            there, entries = target_description(out, settings, pixels.n, shard_size)
            if there.complete or (entries and not is_dataset(out)):
                raise UserError(f"{out} holds a dataset already; choose another folder.")
            if is_dataset(out):
                remove_dataset(out)
            # Shards that a killed call wrote and did not enter would be taken for shards of these blocks.
            aside = Aside(out)
            for name in shard_names(out):
                aside.take(f"{SHARDS}/{name}")
        try:
            description, due = make_shards(
                out,
                held,
                settings,
                pixels.n,
                partial(part_of, pixels, table),
                shard_of,
                started=started,
                shard_size=shard_size or (None if is_dataset(out) else usual_shard_size(pixels.shape)),
                workers=workers,
                show_progress=show_progress,
            )
        except BaseException:
            # Only what this call has begun, and only while no other process has taken the folder over.
            with suppress(UserError):
                if blocks and read_description(out).settings == settings:
                    held.check()
                    remove_dataset(out)
            raise
    return Imported(out, description.n, due)


def settings_of(
    pixels: Images, table: ImageTable, declared: Factors, split: str, show_progress: bool
) -> dict[str, Any]:
    """Return the settings that dataset.json records, with the hashes that tell these arrays from others."""
    check_known("split", split, SPLITS)
    labels = [column for column in (table.classes, *table.columns.values()) if column is not None]
    hashed = pixels.sha256(show_progress) if isinstance(pixels, ArrayImages) else None
    settings: dict[str, Any] = {
        "world": declared.as_dict(),
        "source": {
            "kind": "import",
            "layout": ARRAYS,
            "from": "arrays",
            "split": split,
            "images_sha256": hashed,
            "raw_latents_sha256": sha256(table.raw.tobytes()),
            "labels_sha256": sha256(b"".join(column.tobytes() for column in labels)),
        },
        "size": pixels.shape[0],
        "quality": None,
        "material": "as imported",
        "device": "unknown",
        "versions": {"ident3d": version("ident3d")},
    }
    # Coloured images, as all were before, need not say how many channels they have.
    return settings if pixels.shape[2] == 3 else settings | {"channels": pixels.shape[2]}


def usual_shard_size(shape: tuple[int, int, int]) -> int:
    """Return 4 MB of images, but at most 4,096; of large ones as many as are rendered into a shard."""
    return max(default_shard_size(shape[0]), min(MOST_IN_A_SHARD, SHARD_BYTES // prod(shape)))


def part_of(pixels: Images, table: ImageTable, job: Job) -> Shard:
    """Return the images and rows of one shard."""
    rows = slice(job.first, job.first + job.count)
    return Shard(
        pixels.read(job.first, job.count),
        table.raw[rows],
        table.scene[rows],
        np.arange(job.first, job.first + job.count, dtype=np.int64),
        None if table.classes is None else table.classes[rows],
        {name: column[rows] for name, column in table.columns.items()},
    )


def shard_of(settings: dict[str, Any], job: Job, shard: Shard) -> Shard:
    return shard
