"""What is known of anybody's images, row by row, checked: latents and their factors, classes, further columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known, unknown
from ident3d.latents.declare import declare
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors
from ident3d.loaders.format.latents_table import class_type
from ident3d.loaders.format.shard import FURTHER_COLUMNS

# A class is stored as int8, or of more than 128 as int16; their names have to fit into a shard's settings.
LAST_CLASS: Final = 2**12 - 1


@dataclass(frozen=True)
class ImageTable:
    """All that is known of the images, row by row: raw latents, values in scene units, classes, further columns."""

    raw: NDArray[np.float32]
    scene: NDArray[np.float32]
    classes: NDArray[np.signedinteger[Any]] | None
    columns: dict[str, NDArray[np.int64]]


def table_of(
    latents: ArrayLike | None,
    names: Sequence[str] | None,
    kinds: Sequence[str] | Mapping[str, str] | None,
    factors: Factors | Iterable[Factor] | None,
    classes: ArrayLike | None,
    class_names: Sequence[str] | None,
    columns: Mapping[str, ArrayLike],
) -> tuple[ImageTable, Factors]:
    """Return the checked latents, classes and columns, and the declaration of the factors."""
    values = np.empty((0, 0)) if latents is None else numbers(latents)
    # A class has the number that the declaration gives it, also where some classes do not occur.
    if class_names is None and isinstance(factors, Factors):
        class_names = factors.classes or None
    labels, known = labels_of(classes, class_names)
    if factors is None:
        declared = Factors((), known) if latents is None else declare(values, names, kinds, known)
    elif names is not None or kinds is not None:
        raise UserError("Give the factors, or their names and kinds, and not both.")
    else:
        given = factors if isinstance(factors, Factors) else Factors(tuple(factors))
        declared = Factors(given.factors, known or given.classes)
    if labels is not None and len(labels) and labels.max() >= len(declared.classes):
        raise UserError(f"There is an image of class {labels.max()}, and {len(declared.classes)} names of classes.")
    raw = declared.to_raw(values) if latents is not None or declared.n_raw else empty(0)
    further = {}
    for name, column in columns.items():
        check_known("column", name, FURTHER_COLUMNS)
        further[name] = whole(column, name)
    lengths = {"latents": latents is not None and len(raw), "classes": labels is not None and len(labels)}
    rows = {k: int(n) for k, n in lengths.items() if n is not False} | {k: len(v) for k, v in further.items()}
    if len(set(rows.values())) > 1:
        raise UserError(f"Every image has one row of each: {', '.join(f'{k} have {n}' for k, n in rows.items())}.")
    return ImageTable(raw, values.astype(np.float32), labels, further), declared


def numbers(latents: ArrayLike) -> NDArray[np.float64]:
    """Return latents as a table of finite numbers."""
    values = np.asarray(latents)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise UserError(f"Latents are a table of numbers (n, d), not {values.dtype} of the shape {values.shape}.")
    values = values.astype(np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise UserError(f"Latents are numbers, but column {bad[0][1]} of image {bad[0][0]} is {values[tuple(bad[0])]}.")
    return values


def labels_of(
    classes: ArrayLike | None, class_names: Sequence[str] | None
) -> tuple[NDArray[np.signedinteger[Any]] | None, tuple[str, ...]]:
    """Return the number of each image's class, and the names of the classes."""
    if classes is None:
        return None, tuple(class_names or ())
    given = np.asarray(classes)
    if given.dtype.kind in "US" and given.ndim == 1:
        known, labels = np.unique(given.astype(str), return_inverse=True)
        known = known if class_names is None else np.asarray(class_names)
        place = {name: k for k, name in enumerate(known.tolist())}
        stray = sorted(set(given.astype(str).tolist()) - set(place))
        if stray:
            raise unknown("class", stray[0], place)
        labels = np.array([place[name] for name in given.astype(str).tolist()], np.int64)
        names = tuple(known.tolist())
    else:
        labels = whole(given, "class")
        # Before they are named: one number of a billion would ask for as many names.
        if len(outside := labels[(labels < 0) | (labels > LAST_CLASS)]):
            raise UserError(f"Classes are numbered from 0 to {LAST_CLASS}; there is a class {outside[0]}.")
        names = tuple(class_names or map(str, range(int(labels.max(initial=-1)) + 1)))
    if len(names) > LAST_CLASS + 1:
        raise UserError(f"A folder has at most {LAST_CLASS + 1} classes, not {len(names)}.")
    return labels.astype(class_type(len(names))), names


def whole(column: ArrayLike, name: str) -> NDArray[np.int64]:
    """Return a column of whole numbers (n,)."""
    given = np.asarray(column)
    if given.ndim != 1 or given.dtype.kind not in "iub":
        raise UserError(f"The {name} of each image is a whole number (n,), not {given.dtype} of shape {given.shape}.")
    return given.astype(np.int64)


def table_rows(table: ImageTable) -> int | None:
    """Return how many images the table is of; None if it has no column at all."""
    found = [table.classes, *table.columns.values(), table.raw if table.raw.shape[1] else None]
    return next((len(rows) for rows in found if rows is not None), None)


def empty(n: int) -> NDArray[np.float32]:
    return np.empty((n, 0), np.float32)
