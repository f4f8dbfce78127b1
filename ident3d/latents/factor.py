"""A declared factor: its kind, its range or values in scene units, and how they become a raw latent."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.arithmetic import Float64

FACTOR_KINDS: Final = ("box", "periodic", "categorical")
LONGEST_NAME: Final = 64
# Float32 keeps seven digits, so a value of a list may be off by so much of the range.
TOLERANCE: Final = 1e-5


@dataclass(frozen=True)
class Factor:
    """One factor: its values in scene units, and how they become a raw latent in [-1, 1].

    raw = 2 (v - low) / (high - low) - 1, where [low, high] is the range. In a periodic factor high is low again. Of a
    categorical one v is the number of the value in the list. A factor with a single value is raw 0.

    Args:
        name: Its name.
        kind: "box" (an interval), "periodic" (once round) or "categorical" (values without an order).
        range: (low, high); by default the first and last of `values`. A periodic factor needs it.
        values: All values that it takes, in order; without them it is continuous. Categorical values may be names.
        group: The name of several factors together, such as "position".

    Example:
        >>> from ident3d import Factor
        >>> Factor("scale", values=(0.5, 0.75, 1.0)).to_raw([0.5, 0.75, 1.0]).tolist()
        [-1.0, 0.0, 1.0]
        >>> Factor("angle", "periodic", range=(0, 360)).to_raw([0, 90, 360]).tolist()
        [-1.0, -0.5, -1.0]
        >>> Factor("shape", "categorical", values=("square", "heart")).to_scene([-1, 1]).tolist()
        [0.0, 1.0]
    """

    name: str
    kind: str = "box"
    range: tuple[float, float] | None = None
    values: tuple[float | str, ...] = ()
    group: str = ""

    def __post_init__(self) -> None:
        check_factor_name(self.name, "factor")
        if self.group:
            check_factor_name(self.group, "group")
        check_known("kind of factor", self.kind, FACTOR_KINDS)
        values = tuple(v if isinstance(v, str) else float(v) for v in self.values)
        # A frozen object is filled once, here: two factors that mean the same are equal.
        self.__dict__["values"] = values
        self.__dict__["range"] = self._checked_range(values)

    def _checked_range(self, values: tuple[float | str, ...]) -> tuple[float, float]:
        if not all(isinstance(v, str) or math.isfinite(v) for v in values):
            raise UserError(f"The values of {self.name} are finite numbers, or names.")
        if len(set(values)) < len(values):
            raise UserError(f"The factor {self.name} has a value twice.")
        if self.kind == "categorical":
            if not values or self.range is not None:
                raise UserError(f"The categorical factor {self.name} has a list of values, and no range.")
            if len({type(v) for v in values}) > 1:
                raise UserError(f"The values of {self.name} are all names or all numbers.")
            return 0.0, float(len(values) - 1)
        numbers = [v for v in values if not isinstance(v, str)]
        if len(numbers) < len(values):
            raise UserError(f"The values of {self.name} are numbers; only categorical factors have names.")
        if sorted(numbers) != numbers:
            raise UserError(f"The values of {self.name} are listed from the lowest to the highest.")
        if self.range is None and (self.kind == "periodic" or not numbers):
            raise UserError(f"The {self.kind} factor {self.name} needs a range, such as range=(-1, 1).")
        low, high = map(float, self.range or (numbers[0], numbers[-1]))
        if not 0 <= high - low < math.inf or (low == high and numbers != [low]):
            raise UserError(f"The range of {self.name} goes from a lower to a higher number, not from {low} to {high}.")
        if numbers and not low <= numbers[0] <= numbers[-1] <= high:
            raise UserError(f"The values of {self.name} lie outside of its range from {low:g} to {high:g}.")
        if self.kind == "periodic" and numbers and numbers[-1] == high:
            raise UserError(f"The value {high:g} of {self.name} is {low:g} again, one turn on; leave it out.")
        return low, high

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value; of a categorical factor the first and last number in the list."""
        assert self.range is not None
        return self.range

    @property
    def has_names(self) -> bool:
        """Whether the listed values are names."""
        return isinstance(next(iter(self.values), None), str)

    @property
    def listed(self) -> Float64:
        """The listed values as `scene_latents` has them: of names their numbers in the list."""
        return self.positions if self.has_names else np.array(self.values, np.float64)

    @property
    def positions(self) -> Float64:
        """What the listed values are on the way from low to high: the values, or their numbers in the list."""
        if self.kind == "categorical":
            return np.arange(len(self.values), dtype=np.float64)
        return np.array(self.values, np.float64)

    def to_raw(self, column: ArrayLike) -> NDArray[np.float32]:
        """Return raw latents (n,) for values in scene units (n,). Names are given by their number in the list."""
        v, (low, high) = np.asarray(column, np.float64), self.bounds
        self._refuse(~np.isfinite(v), v, "which is no number")
        if self.values:
            v = self.positions[self._listed(v)]
        elif self.kind == "box":
            slack = TOLERANCE * (high - low)
            self._refuse((v < low - slack) | (v > high + slack), v, f"outside of its range from {low:g} to {high:g}")
        if low == high:
            return np.zeros(len(v), np.float32)
        part = (v - low) / (high - low)
        if self.kind != "periodic":
            return np.clip(2 * part - 1, -1, 1).astype(np.float32)
        raw = (2 * (part - np.floor(part)) - 1).astype(np.float32)
        return np.where(raw >= 1, np.float32(-1), raw)

    def to_scene(self, raw: ArrayLike) -> Float64:
        """Return values in scene units (n,) for raw latents (n,); for names, their numbers in the list."""
        raw, (low, high) = np.asarray(raw, np.float64), self.bounds
        if not self.values:
            return np.asarray(low + (raw + 1) / 2 * (high - low))
        return np.asarray(self.listed[self.index(raw)])

    def fixed_at(self, value: float | str) -> float:
        """Return the raw latent that a value stands for: the name of a listed value, or a raw latent.

        Where some name is a number, a text is a name, so that "1" never means two things.
        """
        if isinstance(value, str) and self.has_names:
            if value in self.values:
                return float(self.to_raw([self.values.index(value)])[0])
            if any(map(is_number, self.values)):
                raise UserError(f"{self.name} is one of {', '.join(map(str, self.values))}, not {value!r}.")
        try:
            raw = float(value)
        except (TypeError, ValueError):
            raw = math.nan
        if not -1 <= raw <= 1:
            named = f", or one of {', '.join(map(str, self.values))}" if self.kind == "categorical" else ""
            raise UserError(f"Raw latents are from -1 to 1{named}, so {self.name} cannot be {value}.")
        known = self.to_raw(self.listed) if self.values else np.array([raw])
        if np.abs(known - raw).min() > TOLERANCE:
            listed = ", ".join(f"{v:g}" for v in known)
            raise UserError(f"{self.name} has listed values, at the raw latents {listed}; none is at {raw:g}.")
        return float(known[np.abs(known - raw).argmin()])

    def shown(self, value: float) -> float | str:
        """Return a value in scene units as it was declared: of listed values the nearest one, or its name."""
        # Latents are float32, which has no 0.1.
        return self.values[int(np.abs(self.listed - value).argmin())] if self.values else value

    def index(self, raw: ArrayLike) -> NDArray[np.int64]:
        """Return the number of the nearest listed value for each raw latent (n,)."""
        if not self.values:
            raise UserError(f"{self.name} is continuous: it has no list of values.")
        low, high = self.bounds
        return nearest_place(self.positions, low + (np.asarray(raw, np.float64) + 1) / 2 * (high - low))

    def _listed(self, v: Float64) -> NDArray[np.int64]:
        names, known = self.has_names, self.listed
        if self.kind == "periodic":
            low, high = self.bounds
            v = low + np.mod(v - low, high - low)
        # A categorical factor's numbers are in any order.
        order = np.argsort(known, kind="stable")
        found = order[nearest_place(known[order], v)]
        slack = TOLERANCE * max(1.0 if names else 0.0, float(np.ptp(known)), float(np.abs(known).max()))
        what = f"not the number of one of its {len(known)} values" if names else "not one of its values"
        self._refuse(np.abs(known[found] - v) > slack, v, what)
        return np.asarray(found)

    def _refuse(self, bad: NDArray[np.bool_], v: Float64, why: str) -> None:
        rows = np.flatnonzero(bad)
        if len(rows):
            raise UserError(f"{self.name} of image {rows[0]} is {v[rows[0]]:g}, {why}.")


def stored(factor: Factor, raw: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return raw latents (n,) as images of this factor have them: of listed values the nearest, below 1 on a circle."""
    if factor.values:
        return np.asarray(factor.to_raw(factor.listed)[factor.index(raw)])
    # Just below 1, rounding to float32 gives 1, which is -1.
    return np.where(raw >= 1, np.float32(-1), raw) if factor.kind == "periodic" else raw


def is_number(text: float | str) -> bool:
    """Return whether Python reads the text as a number, as it does "1", "1e3" and "nan"."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def nearest_place(known: Float64, v: Float64) -> NDArray[np.int64]:
    """Return for each number of v the place of the nearest of the `known` ones, which increase."""
    right = np.clip(np.searchsorted(known, v), 1, max(1, len(known) - 1))
    if len(known) == 1:
        return np.zeros(len(v), np.int64)
    return np.where(v - known[right - 1] <= known[right] - v, right - 1, right).astype(np.int64)


def check_factor_name(name: str, what: str) -> None:
    """Refuse a name that could not stand in a list, a table or an option."""
    if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()) or set(name) & set(",=|"):
        raise UserError(f"{name!r} is no {what} name: a name is at most {LONGEST_NAME} letters without , = and |.")
    if name.strip() != name or (what != "class" and name == "class"):
        raise UserError(f"{name!r} is no {what} name: leave spaces at its ends away, and do not call it class.")
