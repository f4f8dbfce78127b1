"""A world: which latents a dataset has, how they are distributed, and how raw numbers become scene values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.distributions.spaces import Box, Product, Space, Sphere
from ident3d.latents.exact.causal import CausalModel, check_classes, load_model, published_model
from ident3d.latents.exact.names import CLASSES, GROUPS, NAMES, POSITIONS, VIEWS
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors
from ident3d.latents.held import check_held
from ident3d.latents.raw import check_raw
from ident3d.latents.scene_values import SPHERE, box_values, periodic_values

# Scene → its own position, angle and hue ranges, in scene units (half widths).
RANGES: Final = {
    "3dident": (3.0, math.pi / 2, math.pi / 2),
    "3dident-periodic": (3.0, math.pi, math.pi),
    "causal3dident": (2.0, math.pi / 2, math.pi / 2),
}
HUE_RULES: Final = ("published", "wrapped")


@dataclass(frozen=True, init=False)
class World:
    """The latent world of one scene. Raw latents are float32 in [-1, 1]; scene = range · raw.

    `fixed` holds latents, or groups of them, at a raw value; a single latent's value goes before its group's. A world
    with a graph takes interventions instead, `do`; `graph` and `classes` are the published ones unless given. Every
    pixel depends on these settings, so the manifest keeps them all.

    Args:
        scene: 3dident, 3dident-periodic or causal3dident.
        position_range: Half width of the positions in scene units; the scene's own by default.
        angle_range: Half width of the angles in radians, up to π; the scene's own by default.
        hue_range: Half width of the hues in radians, up to π; the scene's own by default.
        fixed: Name of a latent or a group → its raw value in [-1, 1], in scenes without a graph.
        hues: published or wrapped: how a negative hue becomes a colour.
        graph: The causal model, or the path of its TOML file, for causal3dident.
        classes: The classes that images take in turn, for causal3dident.
        do: Interventions on the graph: name of a latent or a group → its raw value, or what it is drawn from, such as
            "normal(0.2, 0.3)"; class → its name.

    Example:
        >>> from ident3d import World
        >>> world = World("3dident", fixed={"rotation": 0})
        >>> world.n_raw, world.position_range, world.fixed["rotation_phi"]
        (10, 3.0, 0.0)
        >>> world.to_scene([[1.0] * 10]).shape
        (1, 10)
    """

    scene: str
    position_range: float
    angle_range: float
    hue_range: float
    fixed: Mapping[str, float | str] = field(hash=False)
    hues: str
    graph: CausalModel | None = field(hash=False)
    classes: tuple[str, ...]
    do: Mapping[str, float | str] = field(hash=False)

    def __init__(
        self,
        scene: str = "3dident",
        position_range: float | None = None,
        angle_range: float | None = None,
        hue_range: float | None = None,
        fixed: Mapping[str, float | str] = MappingProxyType({}),
        hues: str = "published",
        graph: CausalModel | Path | str | None = None,
        classes: tuple[str, ...] = (),
        do: Mapping[str, float | str] = MappingProxyType({}),
    ) -> None:
        check_known("scene", scene, RANGES)
        check_known("hue rule", hues, HUE_RULES)
        given = {"position_range": position_range, "angle_range": angle_range, "hue_range": hue_range}
        # A frozen object is filled once, here: two worlds that mean the same are equal, and a manifest holds all.
        self.__dict__.update(scene=scene, hues=hues)
        for (name, value), own in zip(given.items(), RANGES[scene], strict=True):
            self.__dict__[name] = self._check_range(name, value, own)
        self.__dict__["graph"], self.__dict__["classes"] = self._check_graph_and_classes(graph, classes)
        held = check_held(scene, self.graph, self.classes, fixed, do)
        self.__dict__["fixed"], self.__dict__["do"] = (held, {}) if self.graph is None else ({}, held)

    def _check_range(self, name: str, given: float | None, own: float) -> float:
        what = name.replace("_", " ")
        try:
            value = own if given is None else float(given)
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"The {what} must be a number, not {given!r}.") from None
        if name == "position_range":
            if not 0 < value < math.inf:
                raise UserError(f"The {what} must be a positive length in scene units, not {value:g}.")
        elif self.periodic and value != own:
            raise UserError(f"The periodic world's angles and hues go once round; it takes no {what}.")
        elif not 0 < value <= math.pi:
            raise UserError(f"The {what} is a half width in radians above 0 and up to π, not {value:g}.")
        return value

    def _check_graph_and_classes(
        self, graph: CausalModel | Path | str | None, classes: tuple[str, ...]
    ) -> tuple[CausalModel | None, tuple[str, ...]]:
        if not self.causal:
            if graph is not None or classes:
                raise UserError(f"The scene {self.scene} has neither a causal graph nor classes; causal3dident has.")
            return None, ()
        if isinstance(graph, Path | str):
            graph = load_model(graph)
        graph = graph or published_model()
        if not isinstance(graph, CausalModel):
            raise UserError(f"A graph is the path of a TOML file, or what load_model returns, not {graph!r}.")
        chosen = check_classes(classes or graph.classes)
        for name in chosen:
            check_known("class of the graph", name, graph.classes)
        return graph, chosen

    @property
    def title(self) -> str:
        """What the scene is called."""
        return self.scene

    @property
    def causal(self) -> bool:
        """Whether a causal graph links the latents, and the object has a class."""
        return self.scene == "causal3dident"

    @property
    def held(self) -> dict[str, float]:
        """The single latents held at a value, by `fixed` or by an intervention, without the class."""
        values = {**self.fixed, **self.do}
        return {name: value for name, value in values.items() if not isinstance(value, str)}

    @property
    def mechanisms(self) -> CausalModel | None:
        """The graph after the interventions that draw latents anew; latents held at a value stand in `held`."""
        return None if self.graph is None else self.graph.intervened(self.do)

    @property
    def drawn_classes(self) -> tuple[str, ...]:
        """The classes that images take: one if an intervention sets it, none in a scene without classes."""
        return (str(self.do["class"]),) if "class" in self.do else self.classes

    @property
    def periodic(self) -> bool:
        """Whether the angles live on the sphere S⁷ instead of a box."""
        return self.scene == "3dident-periodic"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the raw numbers, in order."""
        return (*NAMES[POSITIONS], *(f"sphere_{k}" for k in range(8))) if self.periodic else NAMES

    @property
    def n_raw(self) -> int:
        return len(self.names)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group or view of the papers → the latents in it."""
        return GROUPS | VIEWS

    @property
    def factors(self) -> Factors:
        """The scene's factors in its own units, in the order of NAMES.

        In the periodic world angles go round, and its raw numbers are not those of its factors one by one.
        """
        group = {name: group for group, names in GROUPS.items() for name in names}
        half = [self.position_range] * 3 + [self.angle_range] * 4 + [self.hue_range] * 3
        spans = [("box", (-width, width)) for width in half]
        if self.periodic:
            spans[2:] = [("box", (0.0, half[2]))] + [("periodic", (0.0, 2 * math.pi))] * 7
        factors = [Factor(name, *span, group=group.get(name, "")) for name, span in zip(NAMES, spans, strict=True)]
        return Factors(tuple(factors), CLASSES if self.causal else ())

    @property
    def space(self) -> Space:
        """Where the raw latents live."""
        return Product((Box(3), Sphere(8))) if self.periodic else Box(len(NAMES))

    def to_scene(self, raw: ArrayLike) -> NDArray[np.float32]:
        """Return scene values (n, 10) float32 in the order of NAMES for raw latents (n, n_raw).

        Box: range · raw. Periodic: x and y as in the box, z = range · (raw + 1)/2, and the point on S⁷ turned to
        spherical coordinates, all but the last of the seven angles doubled.
        """
        raw = np.asarray(raw, np.float64)
        if raw.ndim != 2 or raw.shape[1] != self.n_raw:
            raise UserError(f"Raw latents of {self.scene} have the shape (images, {self.n_raw}), not {raw.shape}.")
        values = periodic_values if self.periodic else box_values
        return values(raw, self.position_range, self.angle_range, self.hue_range).astype(np.float32)

    def check_raw(self, raw: ArrayLike) -> NDArray[np.float32]:
        """Return latents from elsewhere as float32; raise UserError for the first thing that is wrong with them."""
        given = np.asarray(raw)
        checked = check_raw(given, self.names, self.scene)
        if self.periodic:
            length = np.linalg.norm(given[:, SPHERE].astype(np.float64), axis=1)
            if len(off := np.flatnonzero(np.abs(length - 1) > 1e-3)):
                image = off[0]
                raise UserError(
                    f"The last eight raw numbers have length 1; that of image {image} is {length[image]:g}."
                )
        return checked

    def as_dict(self) -> dict[str, Any]:
        """Return the settings in JSON types, for the manifest."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("graph", "classes", "do")}
        # Interventions are recorded under the name that they had in the first folders.
        settings["fixed"] = {**self.fixed, **self.do}
        if self.graph is not None:
            settings |= {"graph": self.graph.as_dict(), "classes": list(self.classes)}
        return settings

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "World":
        """Return the world that as_dict wrote; raise UserError for a setting that is not known."""
        # The settings come from a file that anybody may have edited: what is not known is refused by its name.
        known = [f.name for f in fields(cls) if f.name != "do"]
        for name in settings:
            check_known("setting of a world", name, known)
        rebuilt = dict(settings)
        try:
            if rebuilt.get("graph") is not None:
                rebuilt["graph"] = CausalModel.from_dict(rebuilt["graph"])
            if rebuilt.get("scene") == "causal3dident":
                rebuilt["do"] = rebuilt.pop("fixed", {})
            return cls(**rebuilt | {"classes": tuple(rebuilt.get("classes", ()))})
        except (TypeError, AttributeError, OverflowError) as error:
            raise UserError(f"The recorded settings of the world are of a wrong kind: {error}.") from None


# What a folder records of its latents: the world of a scene or, without a scene, declared factors. Both have names,
# n_raw, groups, space, held, drawn_classes, mechanisms, to_scene and check_raw.
AnyWorld: TypeAlias = World | Factors


def read_world(settings: Mapping[str, Any]) -> AnyWorld:
    """Return the world that as_dict of either kind wrote."""
    return Factors.from_dict(settings) if "scene" not in settings else World.from_dict(settings)
