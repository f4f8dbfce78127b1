"""A mechanism: how one latent is drawn given its parents, as data and as a graph file writes it.

A latent is uniform on its range, or a mixture of components. A component is mean + sd · noise truncated to the range,
with normal or Laplace noise of standard deviation 1; mean, sd and weight are formulas of other latents, one for all
classes or one for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ident3d.errors import UserError, check_known
from ident3d.latents.exact.formula import Bounds, Formula
from ident3d.latents.exact.names import CLASSES, NAMES

# In standard deviations outside the range: as far out as this Φ still has all its digits.
FARTHEST_MEAN: Final = 30.0
# Of a periodic latent's mean, from which whole turns of 2 are taken away.
MOST_TURNS: Final = 1000.0
NOISES: Final = ("normal", "laplace")
MOST_COMPONENTS: Final = 20
ByClass = tuple[Formula, ...]
ONE: Final = (Formula("1"),)


@dataclass(frozen=True)
class Component:
    """Mean + sd · noise. Each number is one formula for all classes, or one for each."""

    mean: ByClass
    sd: ByClass
    noise: str = "normal"
    weight: ByClass = ONE


@dataclass(frozen=True)
class Node:
    """One latent; without components it is uniform on [low, high].

    A periodic one is wrapped, and not truncated. One with `values` is categorical: it takes one of them, with
    probabilities proportional to `weights`, or all equally often. One with `listed` raw values takes the nearest.
    """

    components: tuple[Component, ...] = ()
    low: float = -1.0
    high: float = 1.0
    periodic: bool = False
    values: tuple[str, ...] = ()
    weights: ByClass = ()
    listed: tuple[float, ...] = ()

    @property
    def parents(self) -> frozenset[str]:
        latents = frozenset(name for formula in self.formulas for name in formula.names)
        numbers = [number for part in self.components for number in (part.mean, part.sd, part.weight)]
        return latents | {"class"} if any(len(formulas) > 1 for formulas in numbers) else latents

    @property
    def formulas(self) -> list[Formula]:
        numbers = [number for part in self.components for number in (part.mean, part.sd, part.weight)]
        return [formula for formulas in (*numbers, self.weights) for formula in formulas]

    @property
    def keys(self) -> frozenset[str]:
        """What its formulas look up."""
        return frozenset(key for formula in self.formulas for key in formula.keys)

    @property
    def unset(self) -> "Node":
        """The latent without parents, as it is drawn if nothing is said of it."""
        return Node(periodic=self.periodic, values=self.values, listed=self.listed)

    @property
    def reach(self) -> Bounds:
        """The lowest and the highest raw value that it can have: the nearest listed value may lie outside its range."""
        if self.periodic or not self.listed:
            return min(self.low, *self.listed, 1), max(self.high, *self.listed, -1)
        # Of two that are as near, either.
        low = min(self.listed, key=lambda value: (round(abs(value - self.low), 6), value))
        return low, max(self.listed, key=lambda value: (-round(abs(value - self.high), 6), value))

    def check(self, name: str, ranges: Mapping[str, Bounds]) -> None:
        """Refuse numbers with which nothing can be drawn, for parents anywhere in their ranges."""
        for value, weight in zip(self.values, self.weights, strict=bool(self.weights)):
            check_weight(weight, f"of {value} (in {name})", ranges)
        for part in self.components:
            for weight in part.weight:
                check_weight(weight, f"of a component of {name}", ranges)
            for sd in part.sd:
                low, high = sd.bounds(ranges)
                if not 1e-6 <= low <= high <= 1e6:
                    found = f"{low:g}" if low == high else f"from {low:g} to {high:g}"
                    raise UserError(f"The sd of {name} must be a positive number between 1e-6 and 1e6, not {found}.")
            for mean in part.mean if self.periodic else ():
                low, high = mean.bounds(ranges)
                if not max(-low, high) <= MOST_TURNS:
                    raise UserError(
                        f"The mean {mean.text!r} of {name} may go round more than {MOST_TURNS / 2:g} times."
                    )
            # A mean far outside the range leaves no probability within it, and every draw would lie on the bound.
            for k in range(0 if self.periodic else max(len(part.mean), len(part.sd))):
                mean, sd = part.mean[k % len(part.mean)], part.sd[k % len(part.sd)]
                margin = FARTHEST_MEAN * sd.bounds(ranges)[0]
                low, high = mean.bounds(ranges)
                if not (low >= self.low - margin and high <= self.high + margin):
                    raise UserError(
                        f"The mean {mean.text!r} of {name} may lie more than {FARTHEST_MEAN:g} sd outside its range, "
                        "where nothing can be drawn."
                    )

    def as_table(self, classes: Sequence[str]) -> dict[str, Any]:
        """Return the table of a graph file."""
        if self.weights:
            return {"weight": {value: weight.text for value, weight in zip(self.values, self.weights, strict=True)}}
        table: dict[str, Any] = {}
        parts = [_component_table(part, classes) for part in self.components]
        if len(parts) == 1:
            table |= parts[0]
        elif parts:
            weights = ({"weight": by_class_table(part.weight, classes)} for part in self.components)
            table["mixture"] = [weight | part for weight, part in zip(weights, parts, strict=True)]
        return table | ({} if (self.low, self.high) == (-1, 1) else {"range": [self.low, self.high]})


def read_node(name: str, table: Any, classes: tuple[str, ...], names: Sequence[str] = NAMES) -> Node:
    """Return the latent that a table of a graph file describes; raise UserError for what does not fit.

    `names` are those of all latents.
    """
    if not isinstance(table, Mapping):
        raise UserError(f"{name} is a table with mean, sd and range, not {table!r}.")
    low, high = read_range(name, table.get("range", (-1, 1)))
    rest = {key: value for key, value in table.items() if key != "range"}
    if "mixture" not in rest:
        known = ("mean", "sd", "noise", "range", "mixture")
        return Node((_component(name, rest, classes, known, names),) if rest else (), low, high)
    parts = rest.pop("mixture")
    if rest:
        raise UserError(f"{name} has a mixture; {next(iter(rest))} belongs into its components.")
    if not isinstance(parts, list) or not 2 <= len(parts) <= MOST_COMPONENTS:
        raise UserError(f"The mixture of {name} is a list of 2 to {MOST_COMPONENTS} tables with weight, mean and sd.")
    within = ("weight", "mean", "sd", "noise")
    return Node(tuple(_component(name, part, classes, within, names) for part in parts), low, high)


def by_class(what: str, given: Any, classes: tuple[str, ...], names: Sequence[str] = NAMES) -> ByClass:
    """Return one formula, or one for each class; equal ones are one, so that they are computed and written once."""
    if not isinstance(given, Mapping):
        return (_formula(what, given, names),)
    if not classes:
        raise UserError(
            f"The {what} is a number or a formula, not a table: a formula asks a categorical factor for its value, as "
            "in 0.5 * (shape == 'cube')."
        )
    for key in given:
        check_known(f"class (in the {what})", key, CLASSES)
    if missing := [c for c in classes if c not in given]:
        raise UserError(f"The {what} says nothing of the class {missing[0]}.")
    formulas = tuple(_formula(what, given[c], names) for c in classes)
    return formulas[:1] if len(set(formulas)) == 1 else formulas


def by_class_table(formulas: ByClass, classes: Sequence[str]) -> Any:
    texts = [formula.text for formula in formulas]
    return texts[0] if len(texts) == 1 else dict(zip(classes, texts, strict=True))


def check_weight(weight: Formula, what: str, ranges: Mapping[str, Bounds]) -> None:
    low, high = weight.bounds(ranges)
    if not 0 < low <= high <= 1e100:
        raise UserError(f"The weight {weight.text!r} {what} must be above 0; it may be {low:g}.")


def _component(
    name: str, table: Any, classes: tuple[str, ...], known: Sequence[str], names: Sequence[str]
) -> Component:
    if not isinstance(table, Mapping):
        raise UserError(f"A component of {name} is a table with weight, mean and sd, not {table!r}.")
    for key in table:
        check_known(f"setting of {name}:", key, known)
    if "mean" not in table or "sd" not in table:
        raise UserError(f"{name} needs both a mean and an sd to be drawn around a mean, or neither to be uniform.")
    noise = table.get("noise", "normal")
    check_known(f"noise (of {name})", noise, NOISES)
    mean, sd = (by_class(f"{key} of {name}", table[key], classes, names) for key in ("mean", "sd"))
    return Component(mean, sd, noise, by_class(f"weight of {name}", table.get("weight", 1), classes, names))


def _component_table(part: Component, classes: Sequence[str]) -> dict[str, Any]:
    table = {"mean": by_class_table(part.mean, classes), "sd": by_class_table(part.sd, classes)}
    # A plain sd is a number in the file, as it always was.
    if len(part.sd) == 1 and not isinstance(number := _number(part.sd[0].text), str):
        table["sd"] = number
    return table | ({"noise": part.noise} if part.noise != "normal" else {})


def _formula(what: str, given: Any, names: Sequence[str]) -> Formula:
    if not isinstance(given, str) and not _is_number(given):
        raise UserError(f"The {what} is a number or a formula, not {given!r}.")
    # The sd's number is a float in its record: 1 and 1.0 must be one formula.
    plain = what.startswith("sd")
    formula = Formula(str(_number(str(given)) if plain else given if isinstance(given, str) else repr(given)))
    for parent in formula.names:
        check_known(f"latent (in the {what})", parent, names)
    return formula


def _number(text: str) -> float | str:
    """Return the text as a number if it is one."""
    try:
        return float(text)
    except ValueError:
        return text


def read_range(name: str, given: Any) -> Bounds:
    ends = list(given) if isinstance(given, list | tuple) else []
    if len(ends) != 2 or not all(_is_number(end) for end in ends) or not -1 <= ends[0] < ends[1] <= 1:
        raise UserError(f"The range of {name} is a pair [low, high] within [-1, 1], not {given!r}.")
    return float(ends[0]), float(ends[1])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
