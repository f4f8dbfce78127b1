"""The source of a dataset's latents: drawn from a seed, copied from a file, or made or imported with the images."""

import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.draws import Draws
from ident3d.latents.environments import Environment, recorded_environments, settings_in
from ident3d.latents.exact.causal_draws import classes_of
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.sequence_draws import Frames, columns_of, draw_images
from ident3d.latents.sequences import Sequences
from ident3d.latents.views import Views
from ident3d.latents.worlds import AnyWorld, read_world
from ident3d.loaders.format.arrays import load_array, map_array
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.inside import NotPlain, read_plain

LATENTS_FILE = "latents.npy"
# The kind of source of pictures that are made without a scene.
GENERATED = "generate"
# That of other people's files.
IMPORTED = "import"
# What such a source says of its images if they are all of a grid.
FULL_GRID = "full grid"
# What a source says of how images belong together, if they do. An import keeps what its export says of it.
TOGETHER = ("sequence", "views", "environments")


def world_of(settings: Mapping[str, Any]) -> AnyWorld:
    """Return the latent world that the settings describe: that of a scene, or declared factors."""
    return read_world(settings["world"])


def check_source(source: Mapping[str, Any]) -> None:
    """Raise ValueError or KeyError if a recorded source lacks what its readers take from it."""
    wanted: dict[str, dict[str, type]] = {"draw": {"seed": int, "split": str}, IMPORTED: {"from": str, "split": str}}
    wanted |= {"file": wanted["draw"] | {"sha256": str}, GENERATED: wanted[IMPORTED]}
    for name, kind in wanted.get(str(source["kind"]), {}).items():
        if type(source[name]) is not kind:
            raise ValueError(f"the source's {name} is {source[name]!r}")


def read_npy(path: Path, content: bytes | None = None, *, mapped: bool = False) -> NDArray[Any]:
    """Read a .npy file of numbers or words, without pickle; with `content`, the path is only what errors call it.

    A file that is `mapped` is read when and where its numbers are used.
    """
    try:
        if mapped:
            return map_array(path)
        with path.open("rb") if content is None else io.BytesIO(content) as file:
            return load_array(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UserError(f"{path} cannot be read as a .npy file: {reason}.") from None


def read_draws(path: Path, world: AnyWorld) -> Draws:
    """Read raw latents for a scene and, if there is one column more, the number of each image's class.

    That is what ``all_latents.npy`` of a folder holds. Without the column images take the classes in turn.
    """
    table = read_npy(path)
    if not (world.drawn_classes and table.ndim == 2 and table.shape[1] == world.n_raw + 1):
        return Draws(world.check_raw(table), None)
    raw, column = world.check_raw(table[:, :-1]), table[:, -1]
    numbers = {CLASSES.index(name): name for name in world.drawn_classes}
    stray = np.flatnonzero(~np.isin(column, list(numbers)))
    if len(stray):
        known = ", ".join(f"{number} {name}" for number, name in numbers.items())
        raise UserError(
            f"The last column of {path} is the class, and that of image {stray[0]} is {column[stray[0]]:g}; there are "
            f"{known}."
        )
    return Draws(raw, column.astype(np.int8))


def source_of_seed(
    seed: int,
    split: str,
    sequence: Sequences | None = None,
    environments: Sequence[Environment] = (),
    views: Views | None = None,
) -> dict[str, Any]:
    """Return the source of drawn latents: those of image i depend on the world, on these settings and on i alone."""
    drawn: dict[str, Any] = {"kind": "draw", "seed": seed, "split": split}
    drawn |= {"sequence": sequence.as_dict()} if sequence else {}
    drawn |= {"views": views.as_dict()} if views else {}
    return drawn | ({"environments": [each.as_dict() for each in environments]} if environments else {})


def together(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the images of a source belong together, as far as it is recorded: as they were rendered."""
    known = source["kind"] in ("draw", IMPORTED)
    return {name: source[name] for name in TOGETHER if known and source.get(name) is not None}


def environments_of(settings: Mapping[str, Any]) -> tuple[Environment, ...]:
    """Return the environments that the images were rendered in; none of other images. Raise UserError if not so."""
    recorded = together(settings["source"]).get("environments")
    if recorded is None:
        return ()
    environments = recorded_environments(recorded)
    settings_in(world_of(settings), environments)
    return environments


def sequences_of(settings: Mapping[str, Any]) -> Sequences | None:
    """Return how the images follow one another in time, if they were rendered as sequences; raise UserError if not so.

    The frames of such a folder are computed, and need not be read.
    """
    recorded = together(settings["source"]).get("sequence")
    if recorded is None:
        return None
    sequence = Sequences.from_dict(recorded)
    # Frames must be drawable in this world.
    sequence.conditional(world_of(settings))
    return sequence


def views_of(settings: Mapping[str, Any]) -> Views | None:
    """Return how images are views of one z, if they were rendered so; raise UserError if not so."""
    recorded = together(settings["source"]).get("views")
    if recorded is None:
        return None
    if settings["source"].get("sequence") is not None:
        raise UserError("Images are frames of sequences, or views of one z, and these are recorded as both.")
    views, world = Views.from_dict(recorded), world_of(settings)
    views.blocks(world)
    views.check(world)
    return views


def blocks_of(settings: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return shared and private → the latents that are so in rendered views; empty for other images, or one block."""
    views = views_of(settings)
    blocks = views.blocks(world_of(settings)) if views else {}
    return blocks if "private" in blocks else {}


def computed_columns(settings: Mapping[str, Any], index: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the further columns of images that follow from their numbers, if they were rendered so."""
    return columns_of(index, sequences_of(settings), len(environments_of(settings)), views_of(settings))


def computed_column(settings: Mapping[str, Any], name: str, n: int) -> NDArray[np.int64] | None:
    """Return a further column of images 0 … n-1 that follows from their numbers, if they were rendered so."""
    return computed_columns(settings, np.arange(n)).get(name)


def source_of_copy(file: bytes, seed: int, split: str) -> dict[str, Any]:
    """Return the source of latents from a .npy file in the folder; seed and split choose the noise of the pixels."""
    return {"kind": "file", "sha256": sha256(file), "seed": seed, "split": split}


def npy_bytes(raw: NDArray[np.float32]) -> bytes:
    """Return the .npy file that holds the array."""
    buffer = io.BytesIO()
    np.save(buffer, raw, allow_pickle=False)
    return buffer.getvalue()


def copy_is_sound(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Return whether the folder's copy of the latents file is as recorded; True if no such file is the source."""
    return settings["source"]["kind"] != "file" or sound_copy(folder, settings) is not None


def sound_copy(folder: Path, settings: Mapping[str, Any]) -> bytes | None:
    """Return the folder's copy of the latents file, if it is there and as recorded."""
    try:
        data = read_plain(folder, LATENTS_FILE)
    except (FileNotFoundError, NotPlain):
        return None
    return data if sha256(data) == settings["source"]["sha256"] else None


@lru_cache(maxsize=1)
def copied_table(folder: Path, digest: str, state: tuple[int, ...]) -> NDArray[Any]:
    """Return the table in the folder's copy of the latents file, which is read once as long as its `state` is the same.

    A dataset of many shards would else read and hash it all for each of them.
    """
    data = sound_copy(folder, {"source": {"sha256": digest}})
    if data is None:
        raise wrong_copy(folder)
    table = read_npy(folder / LATENTS_FILE, data)
    table.setflags(write=False)
    return table


def wrong_copy(folder: Path) -> UserError:
    return UserError(f"{folder / LATENTS_FILE} is not the file that this dataset was started with.")


def recorded_latents(folder: Path, settings: Mapping[str, Any], first: int, count: int) -> Frames | None:
    """Return latents, classes and further columns of images first … first+count-1 from their source, if it has them."""
    # Anything but these two sources cannot be computed again: the latents of other images are those of their shards.
    source = settings["source"]
    if source["kind"] == "draw":
        given = {"seed": source["seed"], "split": source["split"], "start": first, "count": count}
        how = sequences_of(settings), environments_of(settings), views_of(settings)
        return draw_images(world_of(settings), *how, **given)
    if source["kind"] == "file":
        try:
            known = (folder / LATENTS_FILE).stat()
        except FileNotFoundError:
            raise wrong_copy(folder) from None
        state = known.st_ino, known.st_size, known.st_mtime_ns
        world, table = world_of(settings), copied_table(folder, source["sha256"], state)[first : first + count]
        if table.ndim != 2:
            raise UserError(f"{folder / LATENTS_FILE} holds no table of latents.")
        raw, classes = table[:, : world.n_raw].astype(np.float32), world.drawn_classes
        if table.shape[1] > world.n_raw:
            return Frames(raw, table[:, -1].astype(np.int8), {})
        return Frames(raw, classes_of(np.arange(first, first + len(raw)), classes) if classes else None, {})
    return None
