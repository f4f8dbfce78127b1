"""Declared factors: what images depend on, said in one way for those that are rendered, generated or imported."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.distributions.spaces import Box, Circle, Product, Space
from ident3d.latents.exact.causal import CausalModel
from ident3d.latents.exact.interventions import is_drawn
from ident3d.latents.factor import TOLERANCE, Factor, check_factor_name
from ident3d.latents.own_graph import independent, load_graph, read_graph
from ident3d.latents.raw import check_raw

# Columns of a shard's table of latents.
MOST_FACTORS: Final = 64


class SceneSource(NamedTuple):
    """What a world says of a user's own scene: the name of its class, and the sha256 of its file."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Factors:
    """The declared factors of a folder's images, in the order of their raw latents, and the names of the classes.

    A folder without a scene of ours records this in place of a `World`, and has the same `names`, `space` and
    `to_scene`.

    Args:
        factors: The factors.
        classes: The name of each class, if images have one.
        fixed: Factor or group → the raw value in [-1, 1] that it is held at, or the name of a value. A single factor's
            value goes before its group's.
        own_scene: The user's own scene that images are rendered in; None for other images.
        graph: How factors depend on one another: the path of a TOML file; without it they are independent.
        do: Interventions: factor or group → its raw value, the name of a value, or what it is drawn from, such as
            "normal(0.5 * x, 0.1)".

    Example:
        >>> from ident3d import Factor, Factors
        >>> factors = Factors((Factor("x", range=(0, 1)), Factor("turn", "periodic", range=(0, 360))))
        >>> factors.names, factors.space
        (('x', 'turn'), Product(parts=(Box(dim=1, low=-1.0, high=1.0), Circle(dim=1))))
        >>> factors.to_raw([[0.25, 180]]).tolist()
        [[-0.5, 0.0]]
    """

    factors: tuple[Factor, ...]
    classes: tuple[str, ...] = ()
    fixed: Mapping[str, float | str] = field(default_factory=dict, hash=False)
    own_scene: SceneSource | None = None
    graph: CausalModel | Path | str | None = field(default=None, hash=False)
    do: Mapping[str, float | str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        self.__dict__.update(factors=tuple(self.factors), classes=tuple(map(str, self.classes)))
        if len(self.factors) > MOST_FACTORS:
            raise UserError(f"A folder has at most {MOST_FACTORS} factors, not {len(self.factors)}.")
        for kind, names in (("factor", self.names), ("class", self.classes)):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise UserError(f"The {kind} name {twice[0]!r} is given twice; each must have its own.")
        for name in self.classes:
            check_factor_name(name, "class")
        for name in self.groups:
            if name in self.names:
                raise UserError(f"The group {name!r} has the name of a factor.")
        fixed, do = self._by_factor(self.fixed, "Held factors"), self._by_factor(self.do, "Interventions")
        self.__dict__["fixed"] = {factor.name: factor.fixed_at(fixed[factor.name]) for factor in self._among(fixed)}
        self.__dict__["do"] = {
            factor.name: str(do[factor.name]) if is_drawn(do[factor.name]) else factor.fixed_at(do[factor.name])
            for factor in self._among(do)
        }
        self._check_graph()

    def _by_factor(self, given: Mapping[str, float | str], what: str) -> dict[str, float | str]:
        if not isinstance(given, Mapping):
            raise UserError(f"{what} are a dict of name and raw value, not {given!r}.")
        singles: dict[str, float | str] = {}
        # Groups come first, so that a single factor's own value replaces that of its group.
        for name, value in sorted(given.items(), key=lambda item: item[0] not in self.groups):
            check_known("factor", name, [*self.names, *self.groups])
            singles |= dict.fromkeys(self.groups.get(name, (name,)), value)
        return singles

    def _among(self, names: Mapping[str, object]) -> list[Factor]:
        return [factor for factor in self.factors if factor.name in names]

    def _check_graph(self) -> None:
        if isinstance(self.graph, Path | str):
            self.__dict__["graph"] = load_graph(self.graph, self.factors)
        if not isinstance(self.graph, CausalModel | None) or (self.graph and tuple(self.graph.nodes) != self.names):
            raise UserError("A graph of declared factors is the path of a TOML file with a table for each.")
        for name, value in self.fixed.items():
            if self.graph:
                raise UserError(
                    f"The scene has a causal graph: {name} is set by an intervention, --do {name}={value:g}, `do` in "
                    "Python, not by --fix."
                )
            if name in self.do:
                raise UserError(f"{name} is held fixed and intervened on; take one of the two.")
        # What is drawn anew must leave a graph that can be drawn from.
        _ = self.mechanisms

    @property
    def title(self) -> str:
        """What the scene is called; of images without one, that they have declared factors."""
        return self.own_scene.name if self.own_scene else "declared factors"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the raw latents, in order."""
        return tuple(factor.name for factor in self.factors)

    @property
    def n_raw(self) -> int:
        return len(self.factors)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group → the factors in it."""
        grouped = [factor.group for factor in self.factors if factor.group]
        return {name: tuple(f.name for f in self.factors if f.group == name) for name in dict.fromkeys(grouped)}

    @property
    def held(self) -> dict[str, float]:
        """The factors that never change: those that have a single value, at raw 0, and those that are held or set."""
        single = {factor.name: 0.0 for factor in self.factors if factor.bounds[0] == factor.bounds[1]}
        values = {**self.fixed, **self.do}
        return single | {name: float(value) for name, value in values.items() if not isinstance(value, str)}

    @property
    def drawn_classes(self) -> tuple[str, ...]:
        """The classes that images would be rendered in: none, because classes come with a graph."""
        return ()

    @property
    def mechanisms(self) -> CausalModel | None:
        """The graph after the interventions that draw factors anew; None if factors are drawn independently."""
        graph = self.graph if isinstance(self.graph, CausalModel) else None
        if graph is None and not any(isinstance(value, str) for value in self.do.values()):
            return None
        return (graph or independent(self.factors)).intervened(self.do)

    @property
    def categorical(self) -> tuple[int, ...]:
        """The columns of the categorical factors, which a pair has in common."""
        return tuple(k for k, factor in enumerate(self.factors) if factor.kind == "categorical")

    @property
    def space(self) -> Space:
        """Where the raw latents live: a box, a circle for each periodic factor, or a product of both."""
        if not self.factors:
            raise UserError(
                "These images have no latents, so that there is nothing to pair or to score them by; `train DIR --cond "
                "augment --dim 10` pairs augmented views of each image."
            )
        runs = [(periodic, len(list(run))) for periodic, run in groupby(self.factors, is_periodic)]
        parts = tuple(Circle(count) if periodic else Box(count) for periodic, count in runs)
        return parts[0] if len(parts) == 1 else Product(parts)

    def to_raw(self, values: ArrayLike) -> NDArray[np.float32]:
        """Return raw latents (n, factors) float32 in [-1, 1] for values in scene units (n, factors)."""
        return self._by_column(values, np.float32, Factor.to_raw)

    def to_scene(self, raw: ArrayLike) -> NDArray[np.float32]:
        """Return values in scene units (n, factors) float32 for raw latents (n, factors)."""
        return self._by_column(raw, np.float32, Factor.to_scene)

    def nearest(self, raw: ArrayLike) -> NDArray[np.float32]:
        """Return for raw latents (n, factors) the nearest that images have: of listed values, one of theirs."""
        return self.to_raw(self.to_scene(raw))

    def check_raw(self, raw: ArrayLike) -> NDArray[np.float32]:
        """Return latents from elsewhere as float32; raise UserError for the first thing that is wrong with them."""
        checked = check_raw(raw, self.names, self.title)
        known = self.nearest(checked)
        for k, factor in enumerate(self.factors):
            off = np.flatnonzero(np.abs(known[:, k] - checked[:, k]) > TOLERANCE)
            if factor.values and len(off):
                raise UserError(
                    f"{factor.name} of image {off[0]} is {checked[off[0], k]:g}, the raw latent of none of its "
                    f"{len(factor.values)} values."
                )
        return checked

    def indices(self, raw: ArrayLike) -> NDArray[np.int64]:
        """Return the number of each raw latent's value in its factor's list (n, factors)."""
        return self._by_column(raw, np.int64, Factor.index)

    def _by_column(self, table: ArrayLike, dtype: Any, read: Callable[[Factor, Any], NDArray[Any]]) -> NDArray[Any]:
        table = np.asarray(table)
        if table.ndim != 2 or table.shape[1] != self.n_raw:
            raise UserError(f"Latents of these factors have the shape (images, {self.n_raw}), not {table.shape}.")
        out = np.empty(table.shape, dtype)
        for k, factor in enumerate(self.factors):
            out[:, k] = read(factor, table[:, k])
        return out

    def as_dict(self) -> dict[str, Any]:
        """Return the factors in JSON types, for ``dataset.json``."""
        factors = [asdict(f) | {"range": list(f.bounds), "values": list(f.values)} for f in self.factors]
        content = {"factors": factors, "classes": list(self.classes)}
        # Folders of other images have neither, as they always had.
        content |= {"fixed": dict(self.fixed)} if self.fixed else {}
        content |= {"graph": self.graph.as_dict()} if isinstance(self.graph, CausalModel) else {}
        content |= {"do": dict(self.do)} if self.do else {}
        return content | ({"own_scene": self.own_scene._asdict()} if self.own_scene else {})

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Factors":
        """Return the factors that as_dict wrote; raise UserError for what is not known."""
        try:
            factors, fixed = tuple(map(recorded_factor, settings["factors"])), dict(settings.get("fixed", {}))
            own = SceneSource(**settings["own_scene"]) if "own_scene" in settings else None
            # It is printed, on cards too.
            if own and not (own.name.isidentifier() and re.fullmatch("[0-9a-f]{64}", own.sha256)):
                raise TypeError("own_scene")
            graph = read_graph(settings["graph"], factors) if "graph" in settings else None
            return cls(factors, tuple(settings["classes"]), fixed, own, graph, dict(settings.get("do", {})))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"The recorded factors are of a wrong kind: {error}.") from None


def recorded_factor(content: Mapping[str, Any]) -> Factor:
    """Return the factor that as_dict wrote."""
    given = {name: content[name] for name in ("name", "kind", "group")}
    if not set(content) == {*given, "range", "values"} or not all(isinstance(v, str) for v in given.values()):
        raise UserError(f"The recorded factor {content.get('name')!r} has other settings than a factor has.")
    low, high = content["range"]
    range_ = None if given["kind"] == "categorical" else (float(low), float(high))
    return Factor(**given, range=range_, values=tuple(content["values"]))


def is_periodic(factor: Factor) -> bool:
    return factor.kind == "periodic"
