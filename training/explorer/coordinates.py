"""The latents of a page: one slider for each factor, from -1 to 1, whatever the scene's raw latents are."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.exact.names import CLASSES
from ident3d.latents.factor import Factor
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import CLASS, ImageDataset


class Axis(NamedTuple):
    """What a page says of a factor: its range in scene units, and of listed values where each lies from -1 to 1."""

    name: str
    kind: str
    group: str
    low: float
    high: float
    values: tuple[float | str, ...]
    at: tuple[float, ...]


class Coordinates(NamedTuple):
    """The factors of a dataset, with the class as the last, and their values (n, d) from -1 to 1 of all images."""

    axes: tuple[Axis, ...]
    table: NDArray[np.float32]

    def moving(self, numbers: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the latents that vary among these images; the class is none, though it has a control of its own."""
        return tuple(axis["name"] for axis in self.as_dict(numbers) if not axis["held"] and axis["name"] != CLASS)

    def as_dict(self, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the axes in JSON types; one whose value is the same in all of these images is held."""
        here = self.table[numbers]
        held = here.max(0) == here.min(0)
        return [axis._asdict() | {"held": bool(one)} for axis, one in zip(self.axes, held, strict=True)]


def coordinates_of(images: ImageDataset) -> Coordinates:
    """Return the factors of a dataset and the values of all its images."""
    world, (table, classes) = images.world, images.all_latents()
    # Raw numbers of the periodic world are a point on a sphere. Its factors are angles, which sliders can set.
    if isinstance(world, World) and world.periodic:
        table = images.factors.to_raw(world.to_scene(table))
    axes = tuple(map(axis_of, images.factors.factors))
    if classes is not None:
        axis = class_axis(CLASSES if isinstance(world, World) else world.classes, int(classes.max()))
        axes, table = (*axes, axis), np.column_stack([table, np.array(axis.at, np.float32)[classes]])
    return Coordinates(axes, np.ascontiguousarray(table, np.float32))


def axis_of(factor: Factor) -> Axis:
    at = factor.to_raw(factor.listed) if factor.values else np.empty(0, np.float32)
    return Axis(factor.name, factor.kind, factor.group, *factor.bounds, factor.values, tuple(at.tolist()))


def class_axis(known: tuple[str, ...], last: int) -> Axis:
    """Return the axis of the class, whose name no factor may have; classes without a name have their number."""
    count = max(last + 1, len(known))
    names = tuple(known[k] if k < len(known) else f"class {k}" for k in range(count))
    at = np.linspace(-1, 1, count, dtype=np.float32) if count > 1 else np.zeros(1, np.float32)
    return Axis(CLASS, "categorical", "", 0.0, count - 1.0, names, tuple(at.tolist()))
