"""Importing what `export --to` wrote: Parquet files, tar files, or PNG files with ``latents.csv``."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.worlds import World
from ident3d.loaders.cards.text import EXPORT
from ident3d.loaders.exports.columns import CLASS, FLOAT, INDEX, NAMED, RAW, SCENE, Column
from ident3d.loaders.exports.reading import Given, reader_of
from ident3d.loaders.exports.record import ExportedSplit, read_record
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.folders.make import make_shards
from ident3d.loaders.format.files import new_folder, remove_partial_files, sha256
from ident3d.loaders.format.latents_source import computed_columns, together, world_of
from ident3d.loaders.format.latents_table import class_type
from ident3d.loaders.format.shard import Shard, settings_text
from ident3d.loaders.layouts.arrays import usual_shard_size
from ident3d.loaders.layouts.pictures import Imported, open_picture
from ident3d.loaders.layouts.published import TOLERANCE
from ident3d.loaders.stores.lease import lease
from ident3d.machine import cores

# What an import takes over of the settings of an exported folder, if they are there: how the pixels were made.
KEPT = (
    "world", "size", "channels", "quality", "material", "device", "versions", "scene_text", "scene_files",
    "images_per_chunk",
)  # fmt: skip
# Scene values are float32, so that rounding takes up to so much of them.
ROUNDING = 1e-6


def import_export(
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
    """Make a dataset folder of one split of an export: with its pixels, latents, classes, sequences and frames,
    the names of its environments and what its views share.

    An import keeps what an interrupted one has finished.
    """
    started = datetime.now(UTC)
    to, splits = read_record(source)
    name = split or (next(iter(splits)) if len(splits) == 1 else "train")
    check_known("split", name, splits)
    chosen = splits[name]
    reader = reader_of(source, to, chosen)
    settings = settings_of(source, to, name, chosen, licence, citation)
    with new_folder(out), lease(out) as held:
        remove_partial_files(out)
        description, due = make_shards(
            out,
            held,
            settings,
            chosen.n,
            lambda job: reader.read(job.first, job.count),
            partial(shard_of, chosen.columns),
            started=started,
            shard_size=shard_size or (None if is_dataset(out) else usual_shard_size(chosen.description.shape)),
            workers=workers or cores(),
            show_progress=show_progress,
            imported=source.name,
        )
    return Imported(out, description.n, due)


def settings_of(
    source: Path, to: str, name: str, split: ExportedSplit, licence: str | None, citation: str | None
) -> dict[str, Any]:
    """Return the settings that dataset.json records, with the hashes that tell this export from others."""
    given = {"licence": licence, "citation": citation}
    return {key: split.settings[key] for key in KEPT if key in split.settings} | {
        "source": {
            "kind": "import",
            "layout": EXPORT,
            "from": source.resolve().name,
            "split": name,
            "to": to,
            "shards_sha256": split.shards_sha256,
            "files_sha256": sha256(settings_text(split.files).encode()),
            **together(split.settings["source"]),
        },
        "origin": split.origin | {key: text for key, text in given.items() if text},
    }


def shard_of(columns: tuple[Column, ...], settings: dict[str, Any], job: Job, given: Given) -> Shard:
    """Return the shard of these images: pictures decoded, and columns checked and put back into their places."""
    due = np.arange(job.first, job.first + job.count)
    table = {column.name: values_of(column, given.table[column.name], job.first) for column in columns}
    if not np.array_equal(table[INDEX], due):
        raise UserError(f"{given.name}: images {due[0]} to {due[-1]} are not there, or not in their order.")
    of_part = {part: [c for c in columns if c.part == part] for part in (RAW, SCENE)}
    raw = stacked([table[column.name] for column in of_part[RAW]], job.count)
    scene = [table[c.name] if c.factor is None else c.factor.listed[table[c.name]] for c in of_part[SCENE]]
    further = {c.part: table[c.name] for c in columns if c.part not in (RAW, SCENE, INDEX, CLASS)}
    for label, known in computed_columns(settings, due).items():
        if label not in further or not np.array_equal(further[label], known):
            raise UserError(f"{given.name}: {label} of images {due[0]} to {due[-1]} is not as dataset.json has it.")
    kinds = next((c for c in columns if c.part == CLASS), None)
    classes: NDArray[np.signedinteger[Any]] | None = None
    if kinds is not None:
        classes = table[CLASS].astype(class_type(len(kinds.names) or np.iinfo(np.int16).max))
    raw, values = world_of(settings).check_raw(raw), stacked(scene, job.count)
    check_scene(settings, raw, values, job.first)
    images = np.stack([decode(given.name, data, settings) for data in given.pictures])
    return Shard(images, raw, values, due, classes, further)


def check_scene(settings: dict[str, Any], raw: NDArray[np.float32], scene: NDArray[np.float32], first: int) -> None:
    """Raise UserError if scene values (n, d) do not follow from raw latents, up to rounding: somebody changed one."""
    world = world_of(settings)
    factors = (world.factors if isinstance(world, World) else world).factors
    found, due = scene.astype(np.float64), world.to_scene(raw).astype(np.float64)
    off = np.abs(found - due)
    for k, factor in enumerate(factors):
        span = np.ptp([*factor.bounds, *factor.listed]) if factor.values else np.ptp(factor.bounds)
        if factor.kind == "periodic" and span:
            off[:, k] = np.abs(off[:, k] - span * np.round(off[:, k] / span))
        most = TOLERANCE * span + ROUNDING * np.maximum(np.abs(found[:, k]), np.abs(due[:, k]))
        if len(wrong := np.flatnonzero(off[:, k] > most)):
            image = wrong[0]
            raise UserError(
                f"{factor.name} of image {first + image} is {found[image, k]:g}, and {due[image, k]:g} by its raw "
                "latent; whoever changes one changes both."
            )


def stacked(columns: list[NDArray[Any]], n: int) -> NDArray[np.float32]:
    return np.stack(columns, axis=1).astype(np.float32) if columns else np.empty((n, 0), np.float32)


def values_of(column: Column, given: list[Any], first: int) -> NDArray[Any]:
    """Return a column's values, which are numbers or, in text files, names; raise UserError for anything else."""
    numbers = {name: k for k, name in enumerate(column.names)}
    values = [numbers.get(value, value) if type(value) is str else value for value in given] if numbers else given
    for k, value in enumerate(values):
        kind_is_right = type(value) is int or (column.kind == FLOAT and type(value) is float and np.isfinite(value))
        if not kind_is_right or (column.kind == NAMED and not 0 <= value < len(column.names)):
            raise UserError(f"{column.name} of image {first + k} is {value!r}, which is none of its values.")
    try:
        with np.errstate(over="ignore"):
            found = np.array(values, np.float32 if column.kind == FLOAT else np.int64)
        if np.isfinite(found).all():
            return found
    except OverflowError:
        pass
    raise UserError(f"{column.name} has a number that is too large, among images {first} on.")


def decode(name: str, data: bytes, settings: dict[str, Any]) -> NDArray[np.uint8]:
    """Return a picture as (size, size, channels) bytes; it must have just the size and colours of the export."""
    size, channels = settings["size"], settings.get("channels", 3)
    with open_picture(name, data, ("PNG",)) as picture:
        if picture.size != (size, size) or picture.mode != {1: "L", 3: "RGB"}[channels]:
            width, height = picture.size
            raise UserError(f"{name}: a picture is {width}×{height} {picture.mode}, and not as dataset.json says.")
        return np.asarray(picture).reshape(size, size, channels).copy()
