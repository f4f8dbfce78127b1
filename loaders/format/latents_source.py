"""The source of a dataset's latents: drawn from a seed, copied from a file, or imported with the images."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.draws import Draws, draw
from ident3d.latents.exact.causal_draws import classes_of
from ident3d.latents.worlds import World
from ident3d.loaders.format.arrays import load_array
from ident3d.loaders.format.files import sha256, sha256_of_file

LATENTS_FILE = "latents.npy"


def world_of(settings: Mapping[str, Any]) -> World:
    """Return the latent world that the settings describe."""
    return World.from_dict(settings["world"])


def read_npy(path: Path, content: bytes | None = None) -> NDArray[Any]:
    """Read a .npy file of numbers or words, without pickle; with `content`, the path is only what errors call it."""
    try:
        with path.open("rb") if content is None else io.BytesIO(content) as file:
            return load_array(file)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a .npy file: {error}.") from None


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
    source, copy = settings["source"], folder / LATENTS_FILE
    if source["kind"] != "file":
        return True
    return copy.is_file() and not copy.is_symlink() and sha256_of_file(copy) == source["sha256"]


def recorded_latents(folder: Path, settings: Mapping[str, Any], first: int, count: int) -> Draws | None:
    """Return the latents and classes of images first … first+count-1 from their source; None for imported data."""
    # Anything but these two sources cannot be computed again: the latents of an import are those of its shards.
    source = settings["source"]
    if source["kind"] == "draw":
        return draw(world_of(settings), seed=source["seed"], split=source["split"], start=first, count=count)
    if source["kind"] == "file":
        if not copy_is_sound(folder, settings):
            raise UserError(f"{folder / LATENTS_FILE} is not the file that this dataset was started with.")
        raw = read_npy(folder / LATENTS_FILE)[first : first + count].astype(np.float32)
        classes = world_of(settings).drawn_classes
        return Draws(raw, classes_of(np.arange(first, first + len(raw)), classes) if classes else None)
    return None
