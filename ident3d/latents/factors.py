"""Declared factors: what images depend on, said in one way for those that are rendered, generated or imported."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.latents.distributions.spaces import Box, Circle, Product, Space
from ident3d.latents.factor import Factor, check_factor_name

# Columns of a shard's table of latents.
MOST_FACTORS: Final = 64


@dataclass(frozen=True)
class Factors:
    """The declared factors of a folder's images, in the order of their raw latents, and the names of the classes.

    A folder without a scene records this in place of a `World`, and has the same `names`, `space` and `to_scene`.

    Args:
        factors: The factors.
        classes: The name of each class, if images have one.

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

    def __post_init__(self) -> None:
        self.__dict__.update(factors=tuple(self.factors), classes=tuple(map(str, self.classes)))
        if len(self.factors) > MOST_FACTORS:
            raise UserError(f"A folder has at most {MOST_FACTORS} factors, not {len(self.factors)}.")
        for kind, names in (("factor", self.names), ("class", self.classes)):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise UserError(f"There are two {kind} names {twice[0]!r}; each must have its own.")
        for name in self.classes:
            check_factor_name(name, "class")
        for name in self.groups:
            if name in self.names:
                raise UserError(f"The group {name!r} has the name of a factor.")

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
        """The factors that have a single value, at raw 0: they never change."""
        return {factor.name: 0.0 for factor in self.factors if factor.bounds[0] == factor.bounds[1]}

    @property
    def categorical(self) -> tuple[int, ...]:
        """The columns of the categorical factors, which a pair has in common."""
        return tuple(k for k, factor in enumerate(self.factors) if factor.kind == "categorical")

    @property
    def space(self) -> Space:
        """Where the raw latents live: a box, a circle for each periodic factor, or a product of both."""
        if not self.factors:
            raise UserError("These images have no latents, so that there is nothing to pair or to score them by.")
        runs = [(round_it_goes, len(list(run))) for round_it_goes, run in groupby(self.factors, is_periodic)]
        parts = tuple(Circle(count) if round_it_goes else Box(count) for round_it_goes, count in runs)
        return parts[0] if len(parts) == 1 else Product(parts)

    def to_raw(self, values: ArrayLike) -> NDArray[np.float32]:
        """(n, factors) values in scene units → raw latents (n, factors) float32 in [-1, 1]."""
        return self._by_column(values, np.float32, Factor.to_raw)

    def to_scene(self, raw: ArrayLike) -> NDArray[np.float32]:
        """(n, factors) raw latents → values in scene units (n, factors), float32."""
        return self._by_column(raw, np.float32, Factor.to_scene)

    def indices(self, raw: ArrayLike) -> NDArray[np.int64]:
        """(n, factors) raw latents → the number of each value in its factor's list (n, factors)."""
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
        """For ``dataset.json``: JSON types only."""
        factors = [asdict(f) | {"range": list(f.bounds), "values": list(f.values)} for f in self.factors]
        return {"factors": factors, "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Factors":
        """The inverse of as_dict; what is not known is refused."""
        try:
            return cls(tuple(map(recorded_factor, settings["factors"])), tuple(settings["classes"]))
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
