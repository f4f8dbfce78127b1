"""The columns of an export: what is known of each image, each with its type. The import reads them back by the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.exact.names import CLASSES, NAMES
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors
from ident3d.loaders.format.latents_source import environments_of, world_of
from ident3d.loaders.format.shard import FURTHER_COLUMNS, Shard

CLASS: Final = "class"
# What a shard may say of an image besides its number and latents.
LABELS: Final = (CLASS, *FURTHER_COLUMNS)
# Kinds of columns. Of the last one, a value is the number of a name in the list.
FLOAT, INT, NAMED = "float32", "int64", "names"
INDEX, SCENE, RAW = "index", "scene", "raw"
# The names that no factor's column may take: those of pictures, in the formats that hubs read.
PICTURES: Final = ("image", "file", "file_name", "png", "json")
ABOUT: Final = {
    INDEX: "number of the image",
    CLASS: "class of the image",
    "sequence": "number of its sequence",
    "frame": "its place in the sequence",
    "instance": "number of the z that its views show",
    "view": "which view of that z it is",
    "environment": "its environment",
    "targets": "bit k says whether latent k was set anew in this frame",
}


@dataclass(frozen=True)
class Column:
    """One column. It is part of a shard: its `index`, a latent by its `place` among `scene` or `raw`, or a label."""

    name: str
    kind: str
    about: str
    part: str
    place: int = 0
    names: tuple[str, ...] = ()
    factor: Factor | None = None

    def of(self, shard: Shard) -> NDArray[Any]:
        """Return the column's values of a shard's images (n,)."""
        if self.factor:
            return self.factor.index(shard.raw_latents[:, self.place])
        if self.part in (SCENE, RAW):
            return (shard.scene_latents if self.part == SCENE else shard.raw_latents)[:, self.place]
        found = shard.arrays().get(self.part)
        if found is None:
            raise UserError(f"Some shards have a column {self.part} and some do not.")
        if self.kind == NAMED and not np.isin(found, np.arange(len(self.names))).all():
            raise UserError(f"An image has a {self.part} that has no name: there are {', '.join(self.names)}.")
        return found.astype(np.int64)

    def described(self) -> dict[str, Any]:
        """Return the column in JSON types."""
        content: dict[str, Any] = {"name": self.name, "kind": self.kind, "about": self.about}
        return content | ({"names": list(self.names)} if self.names else {})


def columns_of(settings: Mapping[str, Any], labels: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of a folder with these settings whose shards have these labels.

    A factor's column has its name and is in scene units; that of a raw latent begins with `raw_`.
    """
    world = world_of(settings)
    found = [Column(INDEX, INT, ABOUT[INDEX], INDEX)]
    for label in labels:
        known: Sequence[str] = ()
        if label == CLASS:
            known = world.classes if isinstance(world, Factors) else CLASSES
        elif label == "environment":
            known = [each.name for each in environments_of(settings)]
        found.append(Column(label, NAMED if known else INT, ABOUT.get(label, label), label, names=tuple(known)))
    taken = {INDEX, *PICTURES, *LABELS}
    # Of a world of ours, scene values may be fewer than its raw latents.
    factors: Sequence[Factor | str] = world.factors if isinstance(world, Factors) else NAMES
    for k, factor in enumerate(factors):
        if isinstance(factor, str):
            found.append(Column(free_name(factor, taken), FLOAT, "scene value", SCENE, k))
        elif factor.kind == "categorical":
            names = tuple(str(value) for value in factor.values)
            found.append(Column(free_name(factor.name, taken), NAMED, "categorical", SCENE, k, names, factor))
        else:
            low, high = factor.bounds
            about = f"{factor.kind}, {low:g} to {high:g}"
            found.append(Column(free_name(factor.name, taken), FLOAT, about, SCENE, k))
    for k, name in enumerate(world.names):
        found.append(Column(free_name(f"raw_{name}", taken), FLOAT, "raw latent, -1 to 1", RAW, k))
    return tuple(found)


def free_name(name: str, taken: set[str]) -> str:
    """Return the name, and take it. One that is taken gets `its_` in front: a factor `frame` becomes `its_frame`."""
    while name in taken:
        name = f"its_{name}"
    taken.add(name)
    return name


def table_of(columns: Sequence[Column], shard: Shard, rows: slice) -> dict[str, NDArray[Any]]:
    """Return every column of some images of a shard, by name."""
    return {column.name: column.of(shard)[rows] for column in columns}


def plain_rows(columns: Sequence[Column], table: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Return the images of a table as plain values of Python, with names in place of their numbers."""
    listed = [table[column.name].tolist() for column in columns]
    for k, column in enumerate(columns):
        if column.kind == NAMED:
            listed[k] = [column.names[value] for value in listed[k]]
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*listed, strict=True)]
