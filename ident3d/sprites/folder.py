"""A dataset folder of sprites: which images are chosen, and how their shards are made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.streams import SPLITS, check_seed
from ident3d.latents.factors import Factors
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.lifecycle import Job
from ident3d.loaders.folders.make import check_amounts, make_shards
from ident3d.loaders.format.files import new_folder, remove_partial_files
from ident3d.loaders.format.latents_source import GENERATED
from ident3d.loaders.format.shard import Shard
from ident3d.loaders.stores.lease import lease
from ident3d.machine import cores
from ident3d.sprites.dsprites import Floats

# Of black and white images 4 MB of pixels.
SHARD_IMAGES: Final = 1024
# Imported sprites have the same, so that a run on either is scored on the other.
MATERIAL: Final = "white"


@dataclass(frozen=True)
class Generated:
    """What was generated: images in all, and those of this run."""

    path: Path
    n: int
    generated: int


@dataclass(frozen=True)
class Choice:
    """Which images: how many, their factors, where their values come from, and the values of any range of them."""

    n: int
    factors: Factors
    source: dict[str, Any]
    values: Callable[[int, int], Floats]


def check_count(n: int) -> int:
    """Return n; raise UserError if nothing is asked for."""
    if n < 1:
        raise UserError(f"There is at least one image, not {n}.")
    return n


def check_making(split: str, seed: int, workers: int | None, shard_size: int | None) -> None:
    """Raise UserError unless the arguments that all sprites share are right."""
    check_known("split", split, SPLITS)
    # Before a folder is begun: its settings would name a seed that nothing can be drawn with.
    check_seed(seed)
    check_amounts(workers, shard_size)


def table_of_values(latents: ArrayLike) -> Floats:
    """Return latents that were given (n, 5)."""
    table = np.asarray(latents)
    if table.ndim != 2 or not len(table) or table.dtype.kind not in "fiub":
        raise UserError(f"Latents are a table of numbers (n, 5), not {table.dtype} of the shape {table.shape}.")
    return table.astype(np.float64)


def make_sprites(
    out: Path,
    choice: Choice,
    shard_of: Callable[[dict[str, Any], Job, Floats], Shard],
    *,
    data: str,
    split: str,
    origin: Mapping[str, str],
    settings: Mapping[str, Any],
    versions: Mapping[str, str],
    workers: int | None,
    shard_size: int | None,
    show_progress: bool,
) -> Generated:
    """Make the folder of the chosen images, or go on with it; `settings` say what the pictures are like."""
    started = datetime.now(UTC)
    recorded = {
        "world": choice.factors.as_dict(),
        "source": {"kind": GENERATED, "from": data, "split": split} | choice.source,
        "origin": dict(origin),
        **settings,
        "quality": None,
        "material": MATERIAL,
        "device": "cpu",
        "versions": {"ident3d": version("ident3d"), **versions},
    }
    with new_folder(out), lease(out) as held:
        remove_partial_files(out)
        description, due = make_shards(
            out,
            held,
            recorded,
            choice.n,
            partial(part_of, choice),
            shard_of,
            started=started,
            shard_size=shard_size or (None if is_dataset(out) else SHARD_IMAGES),
            workers=workers or cores(),
            show_progress=show_progress,
        )
    return Generated(out, description.n, due)


def part_of(choice: Choice, job: Job) -> Floats:
    return choice.values(job.first, job.count)
