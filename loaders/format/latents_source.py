"""The source of a dataset's latents: drawn from a seed, copied from a file, or imported with the images."""

import io
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.draws import Draws, draw
from ident3d.latents.exact.causal_draws import classes_of
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.worlds import AnyWorld, World, read_world
from ident3d.loaders.format.arrays import load_array, map_array
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.inside import NotPlain, read_plain

LATENTS_FILE = "latents.npy"


def world_of(settings: Mapping[str, Any]) -> AnyWorld:
    """Return the latent world that the settings describe: that of a scene, or declared factors."""
    return read_world(settings["world"])


def scene_of(settings: Mapping[str, Any]) -> World:
    """Return the world of the scene that the settings describe. Declared factors have none."""
    return World.from_dict(settings["world"])


def check_source(source: Mapping[str, Any]) -> None:
    """Raise ValueError or KeyError if a recorded source lacks what its readers take from it."""
    wanted: dict[str, dict[str, type]] = {"draw": {"seed": int, "split": str}, "import": {"from": str, "split": str}}
    wanted["file"] = wanted["draw"] | {"sha256": str}
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
        raise UserError(f"{path} cannot be read as a .npy file: {error}.") from None


def read_draws(path: Path, world: World) -> Draws:
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


def drawn(seed: int, split: str) -> dict[str, Any]:
    """Return the source of drawn latents: those of image i depend on world, seed, split and i alone."""
    return {"kind": "draw", "seed": seed, "split": split}


def copied(file: bytes, seed: int, split: str) -> dict[str, Any]:
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


def recorded_latents(folder: Path, settings: Mapping[str, Any], first: int, count: int) -> Draws | None:
    """Return the latents and classes of images first … first+count-1 from their source; None for imported data."""
    # Anything but these two sources cannot be computed again: the latents of an import are those of its shards.
    source = settings["source"]
    if source["kind"] == "draw":
        return draw(scene_of(settings), seed=source["seed"], split=source["split"], start=first, count=count)
    if source["kind"] == "file":
        try:
            known = (folder / LATENTS_FILE).stat()
        except FileNotFoundError:
            raise wrong_copy(folder) from None
        state = known.st_ino, known.st_size, known.st_mtime_ns
        world, table = scene_of(settings), copied_table(folder, source["sha256"], state)[first : first + count]
        if table.ndim != 2:
            raise UserError(f"{folder / LATENTS_FILE} holds no table of latents.")
        raw, classes = table[:, : world.n_raw].astype(np.float32), world.drawn_classes
        if table.shape[1] > world.n_raw:
            return Draws(raw, table[:, -1].astype(np.int8))
        return Draws(raw, classes_of(np.arange(first, first + len(raw)), classes) if classes else None)
    return None
