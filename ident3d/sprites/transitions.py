"""Transitions: where an object is in a video and how large, at two times. From the published table, or KITTI Masks."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_rules import time_sampler
from ident3d.loaders.format.files import sha256

Floats: TypeAlias = NDArray[np.float64]
Step: TypeAlias = tuple[float, float, float]

SIZE: Final = 64
PUBLISHED: Final = 234_652
# Larger files than this are no such table.
LARGEST: Final = 2**28
# Pairs are kept whose area lies between these quantiles of all areas, at either time.
QUANTILES: Final = (0.05, 0.95)
NUMBER: Final = r"(-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
WINDOW: Final = rf"(?:None|[(\[]\s*{NUMBER}\s*,\s*{NUMBER}\s*,\s*{NUMBER}\s*[)\]])"
CELL: Final = re.compile(rf"\[\s*{WINDOW}(?:\s*,\s*{WINDOW})*\s*\]", re.ASCII)
WINDOWS: Final = re.compile(WINDOW, re.ASCII)
KITTI: Final = "KITTI Masks"
# Images of KITTI Masks' transitions: two of each that is neither of the smallest nor of the largest areas.
KITTI_PAIRED: Final = 146_192
MASKS: Final = ("column", "row", "area")
NAME: Final = "Natural Sprites"
TABLE_TERMS: Final = (
    "ident3d claims no rights in images that it generates; YouTube-VIS, of which the transitions are made, has terms "
    "of its own"
)
CITATION: Final = (
    "Klindt, Schott, Sharma, Ustyuzhaninov, Brendel, Bethge, Paiton: Towards Nonlinear Disentanglement in Natural Data "
    "with Temporal Sparse Coding, ICLR 2021; Watters, Matthey, Borgeaud, Kabra, Lerchner: Spriteworld, 2019"
)


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions (n, 2, 3): x, y and area in pixels of 64×64 at two times, and what is known of their source.

    `found` is how many there were before those of the smallest and largest areas were left out.
    """

    steps: Floats
    found: int
    name: str
    folder: str
    origin: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return what tells these transitions from others, for ``dataset.json``."""
        return {"transitions": len(self.steps), "transitions_sha256": sha256(self.steps.tobytes())}


def read_transitions(place: Path) -> Transitions:
    """Return the transitions of a published table, or of the neighbouring frames of a folder of KITTI Masks.

    A transition is kept if its first area lies between the 5 % and 95 % quantiles of all first areas, and its second
    area between those of all second ones.
    """
    # A FIFO or a device exists as well, and has no end.
    if not (place.is_dir() or place.is_file()):
        raise UserError(f"There is no table of transitions and no dataset folder {place}.")
    return transitions_of_masks(place) if place.is_dir() else transitions_of_table(place)


def transitions_of_masks(folder: Path) -> Transitions:
    """Return the transitions of each two neighbouring frames of a sequence, in order."""
    images = ImageDataset(folder)
    if not isinstance(images.world, Factors) or not set(MASKS) <= set(images.names):
        raise UserError(
            f"The images of {folder} have no row, column and area: transitions are taken from a folder that "
            "`ident3d import kitti-masks` made."
        )
    sampler = time_sampler(images, 1, 0)
    table = images.world.to_scene(images.all_latents()[0]).astype(np.float64)
    table = table[:, [images.names.index(name) for name in MASKS]]
    steps = np.stack([table[sampler.order[sampler.starts + later]] for later in (0, 1)], 1)
    origin = images.parts[0].folder.description.settings.get("origin", {})
    theirs = str(origin.get("name", folder.name))
    short = "KITTI" if theirs == KITTI else theirs
    known = {
        "source": f"sprites drawn by ident3d at transitions of {theirs} ({origin.get('source', 'not said')}), and not "
        "at the published ones of YouTube-VIS",
        "licence": f"that of {theirs}, of which the transitions are made: {origin.get('licence', 'not said')}",
        # Both papers may be cited already.
        "citation": "; ".join(dict.fromkeys([*CITATION.split("; "), *str(origin.get("citation", "")).split("; ")])),
    }
    own = "natural-kitti" if theirs == KITTI else "natural-own"
    return kept(steps, f"{NAME} with {short} transitions", own, known, folder)


def transitions_of_table(path: Path) -> Transitions:
    """Return the transitions of the published table: row by row, time by time, window by window."""
    steps = np.array(list(steps_of_table(path)), np.float64).reshape(-1, 2, 3)
    # A centre beyond the window, or an area larger than it, is none.
    bad = ~((steps >= 0) & (steps <= (SIZE, SIZE, SIZE**2))).all((1, 2)) | (steps[..., 2] == 0).any(1)
    if len(rows := np.flatnonzero(bad)):
        raise UserError(f"{path}: transition {rows[0]} goes to {steps[rows[0]].tolist()}, outside of 64×64 pixels.")
    published = len(steps) == PUBLISHED
    known = {
        "source": "sprites drawn by ident3d at transitions of objects in YouTube-VIS 2019, "
        + (
            "as published"
            if published
            else f"of which a table of {len(steps):,} was given; {PUBLISHED:,} are published"
        ),
        "licence": TABLE_TERMS,
        "citation": f"{CITATION}; Yang, Fan, Xu: Video Instance Segmentation, ICCV 2019",
    }
    name = NAME if published else f"{NAME} with transitions of {path.name}"
    return kept(steps, name, "natural" if published else "natural-own", known, path)


def kept(steps: Floats, name: str, folder: str, origin: dict[str, str], place: Path) -> Transitions:
    """Return the transitions that are not among those of the smallest or largest areas."""
    if not len(steps):
        raise UserError(f"{place} has no transition: nothing is seen at two times one after the other.")
    low, high = np.quantile(steps[..., 2], QUANTILES, axis=0)
    inside = ((steps[..., 2] >= low) & (steps[..., 2] <= high)).all(1)
    if not inside.any():
        raise UserError(f"{place} has {len(steps)} transitions, too few to leave the smallest and largest areas out.")
    return Transitions(steps[inside], len(steps), name, folder, {"name": name} | origin)


def steps_of_table(path: Path) -> Iterator[tuple[Step, Step]]:
    """Yield x, y and area at both times of each transition in the table."""
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path} has more than {LARGEST:,} bytes, and is no table of transitions.")
    try:
        with path.open(encoding="ascii", newline="") as file:
            table = csv.reader(file, strict=True)
            head = next(table, [])
            if head[:2] != ["id", "cat_id"] or head[2:] != [f"t_{k}" for k in range(len(head) - 2)] or len(head) < 4:
                raise UserError(f"{path} is no table of transitions: its first line is not id, cat_id, t_0, t_1, …")
            for row in table:
                if len(row) != len(head):
                    raise UserError(f"{path}: line {table.line_num} has {len(row)} columns, and the first {len(head)}.")
                where = f"{path}: line {table.line_num}"
                cells = [windows_of(cell, where) for cell in row[2:]]
                for before, after in pairwise(cells):
                    if before and after and len(before) != len(after):
                        raise UserError(f"{where} has cells of {len(before)} and of {len(after)} windows.")
                    both = zip(before, after, strict=False)
                    yield from ((one, other) for one, other in both if one is not None and other is not None)
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as a table of transitions ({error}); a pickle of KITTI Masks is first made a "
            "folder by `ident3d import kitti-masks`."
        ) from None


def windows_of(cell: str, where: str) -> list[Step | None]:
    """Return x, y and area in each window of a cell, which names the row first; nothing for an empty cell."""
    if not cell:
        return []
    if not CELL.fullmatch(cell):
        raise UserError(f"{where} has {cell[:60]!r} in place of a list of (row, column, area) or None.")
    found = (match.groups() for match in WINDOWS.finditer(cell))
    return [None if row is None else (float(column), float(row), float(area)) for row, column, area in found]
