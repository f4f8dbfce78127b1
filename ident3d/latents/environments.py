"""Environments: interventional settings of one dataset, which its images take in turn."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ident3d.errors import UserError, check_known
from ident3d.latents.distributions.spaces import Box, Circle
from ident3d.latents.draws import Draws, draw_from
from ident3d.latents.exact.causal import UNPARSED, toml_text
from ident3d.latents.exact.interventions import DISTRIBUTIONS, intervention, is_drawn
from ident3d.latents.exact.mechanism import Node
from ident3d.latents.exact.names import POSITIONS
from ident3d.latents.exact.streams import uniform_float64
from ident3d.latents.factor import check_factor_name, is_number, stored
from ident3d.latents.factors import Factors
from ident3d.latents.steps import Words, around
from ident3d.latents.worlds import AnyWorld, World

MOST: Final = 1000
EXAMPLE: Final = "'bright:x=0.5; y~normal(0.2, 0.3)'"


@dataclass(frozen=True)
class Environment:
    """A name, and what is intervened on: name of a latent, group or class → a value, or what it is drawn from.

    Image i, or sequence i, of a dataset with E environments is of environment i mod E.

    Args:
        name: What it is called.
        do: As `do` of a causal world, or `fixed` of others: a raw value, a class, the name of a value, or a text such
            as "normal(0.2, 0.3)", "laplace(0, 0.1)" or "uniform(-1, 0)". Empty for images as they are drawn.

    Example:
        >>> from ident3d import Environment, Recipe, World
        >>> both = (Environment("as drawn"), Environment("right", {"y": "normal(0.5, 0.1)"}))
        >>> Recipe(World(), environments=both).environments[1].words
        'y ~ normal(0.5, 0.1)'
    """

    name: str
    do: Mapping[str, float | str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_factor_name(self.name, "environment")
        if not isinstance(self.do, Mapping):
            raise UserError(f"The environment {self.name} is a table of names and values, not {self.do!r}.")
        for name, value in self.do.items():
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise UserError(f"In the environment {self.name} {name} is a number or a text, not {value!r}.")

    @property
    def words(self) -> str:
        """What is intervened on, in words."""
        said = [
            f"{n} {'~' if is_drawn(v) else '='} {v if isinstance(v, str) else f'{v:g}'}" for n, v in self.do.items()
        ]
        return ", ".join(said) or "as drawn"

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON types, for ``dataset.json``."""
        return {"name": self.name, "do": dict(self.do)}


class Anew(NamedTuple):
    """What a factor without parents is drawn from: noise around a centre, truncated to a range."""

    family: str
    centre: float
    width: float
    low: float
    high: float


class Setting(NamedTuple):
    """A world with an environment's interventions, and the factors that are drawn anew in it."""

    world: AnyWorld
    anew: dict[str, Anew]


def settings_in(world: AnyWorld, environments: Sequence[Environment]) -> list[Setting]:
    """Return the world in each environment; alone if there are none. Raise UserError for what cannot be drawn."""
    names = [environment.name for environment in environments]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"There are two environments {twice[0]!r}; each has a name of its own.")
    if len(names) == 1 or len(names) > MOST:
        raise UserError(f"A dataset has 2 to {MOST} environments, or none, not {len(names)}.")
    found = []
    for environment in environments:
        try:
            found.append(setting_in(world, environment.do))
        except UserError as error:
            raise UserError(f"In the environment {environment.name}: {error}") from None
    return found or [Setting(world, {})]


def setting_in(world: AnyWorld, do: Mapping[str, float | str]) -> Setting:
    """Return the world under these interventions."""
    singles: dict[str, float | str] = {}
    # Groups come first, so that a single factor's own value replaces that of its group.
    for name, value in sorted(do.items(), key=lambda item: item[0] not in world.groups):
        if name != "class":
            check_known("latent", name, [*world.names, *world.groups])
        singles |= dict.fromkeys(world.groups.get(name, (name,)), value)
    if isinstance(world, World):
        singles = {name: value if name == "class" else _number_or_text(value) for name, value in singles.items()}
        if world.causal:
            recorded = world.as_dict()
            return Setting(World.from_dict(recorded | {"fixed": {**recorded["fixed"], **singles}}), {})
    elif world.mechanisms is not None:
        return Setting(replace(world, do={**world.do, **singles}), {})
    drawn = {name: str(value) for name, value in singles.items() if is_drawn(value)}
    fixed = {name: value for name, value in {**world.fixed, **singles}.items() if name not in drawn}
    anew = {name: _anew(world, name, text) for name, text in drawn.items()}
    if isinstance(world, Factors):
        do = {name: value for name, value in world.do.items() if name not in singles}
        return Setting(replace(world, fixed=fixed, do=do), anew)
    return Setting(World.from_dict(world.as_dict() | {"fixed": fixed}), anew)


def _number_or_text(value: float | str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


def _anew(world: AnyWorld, name: str, text: str) -> Anew:
    if isinstance(world, World) and world.periodic and name not in world.names[POSITIONS]:
        raise UserError(f"The periodic world draws its angles jointly on a sphere, so {name} cannot be drawn anew.")
    if isinstance(world, Factors) and world.factors[world.names.index(name)].kind == "categorical":
        raise UserError(f"{name} is categorical: it is set to one of its values.")
    node = intervention(name, text, Node(), world.names)
    if node.parents:
        way = ": give --graph; `ident3d graph --scene SCENE --toml` prints one to start from"
        raise UserError(
            f"{name} would depend on {', '.join(sorted(node.parents))}, and this scene has no causal graph"
            f"{way if isinstance(world, Factors) else ''}."
        )
    node.check(name, {})
    if not node.components:
        return Anew("uniform", (node.low + node.high) / 2, math.inf, node.low, node.high)
    part = node.components[0]
    centre, width = (formulas[0].bounds({})[0] for formulas in (part.mean, part.sd))
    # The sd of Laplace noise is √2 of its scale.
    return Anew(part.noise, centre, width / (math.sqrt(2) if part.noise == "laplace" else 1), -1.0, 1.0)


def draw_setting(setting: Setting, word: Words, index: Any) -> Draws:
    """Return the latents of images in a setting, from their words (n, words); classes go in turn with `index`."""
    world, anew = setting
    drawn = draw_from(world, word, index)
    for name, (family, centre, width, low, high) in anew.items():
        k, factor = world.names.index(name), None
        if isinstance(world, Factors):
            factor = world.factors[k]
        u = uniform_float64(word[:, k])
        if family == "uniform":
            column = low + (high - low) * u
        else:
            space = Circle(1) if factor and factor.kind == "periodic" else Box(1)
            column = around(space, family, 0.0, np.full(len(u), centre), width, u, np.array([low, high]))
        raw = column.astype(np.float32)
        drawn.raw[:, k] = stored(factor, raw) if factor else raw
    return drawn


def load_environments(path: Path | str) -> tuple[Environment, ...]:
    """Return the environments of a TOML file: a table for each, of names and what they are set to or drawn from.

    Args:
        path: The file.

    Returns:
        The environments, in the order of the file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import ident3d
        >>> path = Path(tempfile.mkdtemp(), "two.toml")
        >>> _ = path.write_text('[plain]\\n[right]\\ny = "normal(0.5, 0.1)"\\n')
        >>> [environment.name for environment in ident3d.load_environments(path)]
        ['plain', 'right']
    """
    path = Path(path)
    text = toml_text(path, "environments")
    try:
        return tuple(Environment(name, table) for name, table in tomllib.loads(text).items())
    except UserError as error:
        raise UserError(f"{path.name}: {error}") from None
    except UNPARSED as error:
        raise UserError(f"{path.name}: This is not TOML: {error}.") from None


def read_environments(texts: Iterable[str], world: AnyWorld | None = None) -> tuple[Environment, ...]:
    """Return what options say: a TOML file, or NAME: and assignments separated by semicolons; a name may come again.

    With a world, values that are numbers become numbers, as a TOML file has them, unless they may be names of values.
    """
    found: dict[str, dict[str, float | str]] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        if not colon or text.endswith(".toml"):
            if Path(text).suffix != ".toml":
                raise UserError(f"{text!r} is no environment: it is a .toml file, or as in {EXAMPLE}.")
            for each in load_environments(text):
                found.setdefault(each.name, {}).update(each.do)
            continue
        do = found.setdefault(name.strip(), {})
        for part in filter(None, map(str.strip, rest.split(";"))):
            sign = "~" if "~" in part else "="
            latent, given, value = map(str.strip, part.partition(sign))
            if not given or not value:
                raise UserError(f"{part!r} is not of the form NAME=VALUE, such as {EXAMPLE}.")
            if latent in do:
                raise UserError(f"{latent} is given two values in the environment {name.strip()}.")
            if sign == "~" and not is_drawn(value):
                raise UserError(
                    f"{latent} is drawn from {', '.join(DISTRIBUTIONS)}, as in {EXAMPLE}; {value!r} is not."
                )
            do[latent] = number_in(world, latent, value) if world is not None and sign == "=" else value
    return tuple(Environment(name, do) for name, do in found.items())


def number_in(world: AnyWorld, latent: str, value: str) -> float | str:
    """Return the number that a text stands for; of a factor whose values have such names, the text."""
    members = world.groups.get(latent, (latent,))
    named = [f for f in world.factors if f.name in members and f.has_names] if isinstance(world, Factors) else []
    if not is_number(value) or any(is_number(name) for factor in named for name in factor.values):
        return value
    return float(value)


def recorded_environments(content: Any) -> tuple[Environment, ...]:
    """Return the environments that as_dict wrote; raise UserError for what is not known."""
    if not isinstance(content, list) or not all(
        isinstance(each, dict) and set(each) == {"name", "do"} for each in content
    ):
        raise UserError("The recorded environments are no list of names and interventions.")
    return tuple(Environment(each["name"], each["do"]) for each in content)
