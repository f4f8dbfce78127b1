"""`Transition`: the mean of each factor from the last frame's, linear, and how often it is intervened on."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final

from ident3d.errors import UserError, check_known, unknown
from ident3d.latents.exact.causal import UNPARSED, toml_text
from ident3d.latents.factors import Factors
from ident3d.latents.steps import FAMILY, WIDTHS
from ident3d.latents.worlds import AnyWorld, World

# By how many widths a mean may lie outside the range, where draws are truncated to.
REACH: Final = {"normal": 30.0, "laplace": 30.0, "gennorm": 1.0, "uniform": 0.9}
OF_MATRIX: Final = ("factors", "matrix", "offset")


@dataclass(frozen=True)
class Rule:
    """One factor: mean = offset + Σ last · (the last frame's) + Σ now · (this frame's), all in raw latents.

    Without `last` it is the factor's own last value. `cond` and `sigma` are those of all factors unless given. With
    probability `intervened` it is set anew, uniform, whatever came before. A categorical factor has `switch` instead of
    a mean.
    """

    last: Mapping[str, float] | None = field(default=None, hash=False)
    now: Mapping[str, float] = field(default_factory=dict, hash=False)
    offset: float = 0.0
    cond: str | None = None
    sigma: float | None = None
    intervened: float = 0.0
    switch: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what is not at its default, in JSON types."""
        plain = asdict(Rule())
        # An empty `last` and a switch of 0 are no defaults: without them the rule means something else.
        return {name: value for name, value in asdict(self).items() if value != plain[name]}


@dataclass(frozen=True)
class Transition:
    """The rules of factors by name; what has none follows the conditional of all.

    Example:
        >>> from ident3d.latents import Transition
        >>> own = Transition.from_dict({"x": {"last": {"x": 0.9, "y": 0.1}, "sigma": 0.05}, "y": {"intervened": 0.2}})
        >>> own.rules["x"].last
        {'x': 0.9, 'y': 0.1}
    """

    rules: Mapping[str, Rule] = field(hash=False)

    @property
    def has_targets(self) -> bool:
        """Whether factors are intervened on."""
        return any(rule.intervened for rule in self.rules.values())

    def order(self) -> tuple[str, ...]:
        """Return the factors that have rules, each after those of the same frame that it depends on."""
        parents = {name: set(rule.now) & set(self.rules) for name, rule in self.rules.items()}
        try:
            return tuple(TopologicalSorter(parents).static_order())
        except CycleError as error:
            cycle = " → ".join(reversed(error.args[1]))
            raise UserError(
                f"The transition has a cycle within a frame: {cycle}; take `last` for one of them."
            ) from None

    def check(self, world: AnyWorld, only: Sequence[str] | None, cond: str, sigma: Any) -> None:
        """Raise UserError if frames of this world cannot be drawn."""
        if isinstance(world, World) and world.periodic:
            raise UserError(
                "The periodic world's angles lie on a sphere together and take no transition; 3dident with "
                "--angle-range 3.14 does."
            )
        self.order()
        moving = world.names if only is None else [m for name in only for m in world.groups.get(name, (name,))]
        categories = {world.names[k] for k in world.categorical} if isinstance(world, Factors) else set[str]()
        model = world.mechanisms
        for name, rule in self.rules.items():
            if name not in world.names:
                raise unknown("factor (in the transition)", name, world.names)
            for parent in (*(rule.last or ()), *rule.now):
                if parent not in world.names:
                    raise unknown(f"factor (in the transition of {name})", parent, world.names)
                if parent in categories:
                    raise UserError(
                        f"The transition of {name} takes {parent} for a number, and it is categorical: its values have "
                        "no order."
                    )
            if name in world.held or name not in moving:
                why = "is held fixed" if name in world.held else "is left out by --only"
                raise UserError(f"{name} {why}, and has a transition.")
            if name in categories:
                if set(rule.as_dict()) - {"switch", "intervened"}:
                    raise UserError(
                        f"{name} is categorical: its transition is a probability, `switch` or `intervened`."
                    )
                continue
            if rule.switch is not None:
                raise UserError(f"{name} is not categorical: only categorical factors have a `switch`.")
            family, width = rule.cond or cond, rule.sigma or width_of(world, name, sigma)
            check_known(f"conditional (of {name})", family, list(REACH))
            if isinstance(world, Factors) and world.factors[world.names.index(name)].kind == "periodic":
                continue
            low, high = (-1.0, 1.0) if model is None else (model.nodes[name].low, model.nodes[name].high)
            size = abs(rule.offset) + sum(map(abs, (rule.last if rule.last is not None else {name: 1.0}).values()))
            size += sum(map(abs, rule.now.values()))
            # Means and ranges are compared by their largest sizes.
            has_mean = rule.last is not None or rule.now or rule.offset
            if has_mean and size > min(-low, high) + REACH[family] * width + 1e-9:
                raise UserError(
                    f"The mean of {name} may be {size:.3g}, too far outside its range from {low:g} to {high:g} for "
                    f"{family} noise of sigma {width:g}: take smaller coefficients, or a larger sigma."
                )

    def as_dict(self) -> dict[str, Any]:
        """Return the rules in JSON types, for ``dataset.json``."""
        return {name: rule.as_dict() for name, rule in self.rules.items()}

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> "Transition":
        """Return the transition that as_dict or a user's file has; raise UserError for what does not fit."""
        if not isinstance(tables, Mapping) or not tables:
            raise UserError("A transition has a table for each factor that it is about, or a matrix for all.")
        rules = {name: table for name, table in tables.items() if name not in OF_MATRIX}
        for name, table in rules.items():
            if not isinstance(table, Mapping):
                raise UserError(f"The transition of {name} is a table, not {table!r}.")
        for name, mean in _of_matrix(tables).items():
            table = rules.get(name, {})
            if twice := set(table) & {"last", "offset"}:
                raise UserError(f"The matrix gives the mean of {name}, and so does {min(twice)} in its table.")
            rules[name] = {**mean, **table}
        if not rules:
            raise UserError("The transition is about no factor.")
        return cls({name: _rule(name, table) for name, table in rules.items()})


def width_of(world: AnyWorld, name: str, sigma: Any) -> float:
    """Return the width of a factor whose rule has none, from one for all or one for each."""
    if sigma is None:
        raise UserError(f"The transition of {name} needs a sigma.")
    return float(sigma[world.names.index(name)] if isinstance(sigma, tuple) else sigma)


def load_transition(path: Path | str) -> Transition:
    """Return the transition that a TOML file holds.

    Args:
        path: The file.

    Returns:
        The transition.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from ident3d import latents
        >>> path = Path(tempfile.mkdtemp(), "own.toml")
        >>> _ = path.write_text('factors = ["x", "y"]\\nmatrix = [[0.8, -0.2], [0.2, 0.8]]\\n')
        >>> latents.load_transition(path).rules["y"].last
        {'x': 0.2, 'y': 0.8}
    """
    path = Path(path)
    text = toml_text(path, "transition")
    try:
        return Transition.from_dict(tomllib.loads(text))
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from None
    except UNPARSED as error:
        raise UserError(f"{path.name}: This is not TOML: {error}.") from None


def _of_matrix(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return last and offset of each factor that a matrix is about."""
    if "matrix" not in tables:
        if stray := [name for name in OF_MATRIX if name in tables and not isinstance(tables[name], Mapping)]:
            raise UserError(f"`{stray[0]}` at the top belongs to a `matrix`, and there is none.")
        return {}
    names, rows = tables.get("factors"), tables["matrix"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise UserError("A matrix needs `factors`, the list of the names that its rows and columns stand for.")
    offset = tables.get("offset", [0.0] * len(names))
    square = isinstance(rows, list) and all(isinstance(row, list) and len(row) == len(names) for row in rows)
    if not square or len(rows) != len(names) or not isinstance(offset, list) or len(offset) != len(names):
        raise UserError(
            f"The matrix must have {len(names)} rows of {len(names)} numbers, and `offset` as many numbers."
        )
    found = {}
    for name, row, shift in zip(names, rows, offset, strict=True):
        _number(f"offset of {name}", shift)
        last = {parent: a for parent, a in zip(names, row, strict=True) if a != 0}
        found[name] = {"last": last} | ({"offset": shift} if shift else {})
    return found


def _rule(name: str, table: Mapping[str, Any]) -> Rule:
    for key in table:
        check_known(f"setting of a transition (of {name}):", key, [f.name for f in fields(Rule)])
    given = dict(table)
    for key in ("last", "now"):
        if key in given:
            if not isinstance(given[key], Mapping):
                raise UserError(f"`{key}` of {name} is a table of factors and coefficients, not {given[key]!r}.")
            given[key] = {parent: _number(f"coefficient of {parent}", a) for parent, a in given[key].items()}
    for key in ("offset", "sigma", "intervened", "switch"):
        if key in given:
            given[key] = _number(f"{key} of {name}", given[key])
    for key in ("intervened", "switch"):
        if not 0 <= given.get(key, 0.0) <= 1:
            raise UserError(f"The probability `{key}` of {name} is from 0 to 1, not {given[key]:g}.")
    if "sigma" in given and not WIDTHS[0] <= given["sigma"] <= WIDTHS[1]:
        raise UserError(f"The sigma of {name} is from {WIDTHS[0]:g} to {WIDTHS[1]:g}, not {given['sigma']:g}.")
    if "cond" in given:
        check_known(f"conditional (of {name})", given["cond"], list(FAMILY.values()))
    return Rule(**given)


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1e6:
        raise UserError(f"The {what} is a number, not {value!r}.")
    return float(value)
