"""`Sequences`: how frames follow one another in rendered sequences, as settings that a folder records."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from ident3d.errors import UserError, check_known
from ident3d.latents.distributions.conditionals import Conditional, Stay
from ident3d.latents.factors import Factors
from ident3d.latents.steps import check_drawable, check_power
from ident3d.latents.transition import Transition, load_transition
from ident3d.latents.world_conditional import DEFAULT_SIGMA, world_conditional
from ident3d.latents.worlds import AnyWorld

LONGEST: Final = 10_000


@dataclass(frozen=True)
class Sequences:
    """Images that follow one another: image i is frame i mod `length` of sequence i // `length`.

    Frame 0 is drawn as any image is. Each next frame is drawn from the conditional around the frame before. A latent
    that is held, the class, and all latents that are not in `only` stay. A factor with listed values takes the nearest
    one. A categorical factor stays, or with probability `switch` takes one of its other values, all alike.

    Args:
        length: Frames of each sequence, from 2 on.
        cond: The conditional's name, as `ident3d.latents.conditional` takes it.
        sigma: Its width, one number or one per latent; None for a uniform that does not depend on the frame before.
        p: The power of gennorm.
        kappa: The concentration of vmf.
        precision: The diagonal of Λ of rejected_normal, one number or one per latent.
        only: Names of the latents, or of groups of them, that change; by default all.
        switch: The probability that a categorical factor takes another value.
        transition: Rules of single factors: a linear mean of the last frame's factors, a width, interventions. What
            `load_transition` returns, or the path of its TOML file.

    Example:
        >>> from ident3d import Recipe, Sequences, World
        >>> recipe = Recipe(World("3dident"), sequence=Sequences(2, sigma=0.2, only=("rotation",)))
        >>> recipe.sequence.length
        2
    """

    length: int
    cond: str = "normal"
    sigma: float | Sequence[float] | None = DEFAULT_SIGMA
    p: float = 3.0
    kappa: float | None = None
    precision: float | Sequence[float] | None = None
    only: Sequence[str] | None = None
    switch: float = 0.0
    transition: Transition | Path | str | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if type(self.length) is not int or not 2 <= self.length <= LONGEST:
            raise UserError(f"A sequence has 2 to {LONGEST:,} frames, not {self.length!r}.")
        if not isinstance(self.cond, str):
            raise UserError(f"A conditional is given by its name, not by {self.cond!r}.")
        # A frozen object is filled once, here: two that mean the same are equal.
        self.__dict__["sigma"] = _number_or_numbers("sigma", self.sigma)
        self.__dict__["precision"] = _number_or_numbers("precision", self.precision)
        for name in ("p", "kappa", "switch"):
            self.__dict__[name] = _number(name, getattr(self, name))
        if self.p is None or self.switch is None:
            raise UserError("p and switch are numbers; leave them away for their usual values.")
        if not 0 <= self.switch <= 1:
            raise UserError(f"The probability of a switch is from 0 to 1, not {self.switch:g}.")
        if isinstance(self.transition, Path | str):
            self.__dict__["transition"] = load_transition(self.transition)
        if not isinstance(self.transition, Transition | None):
            raise UserError("A transition is the path of a TOML file, or what load_transition returns.")
        if self.only is not None:
            listed = isinstance(self.only, Sequence) and not isinstance(self.only, str)
            if not (listed and all(isinstance(name, str) for name in self.only)):
                raise UserError(f"`only` is a list of names, not {self.only!r}.")
            self.__dict__["only"] = tuple(self.only)

    def conditional(self, world: AnyWorld) -> Conditional:
        """Return the conditional of each next frame; raise UserError if the world's frames cannot be drawn from it."""
        switching = self.switching(world)
        categories = {world.names[k] for k in world.categorical} if isinstance(world, Factors) else set[str]()
        free = [name for name in world.names if name not in {*world.held, *categories}]
        only = None if self.only is None else [name for name in self.only if name not in categories or not self.switch]
        if self.rules:
            self.rules.check(world, self.only, self.cond, self.sigma)
            if any(rule.cond == "gennorm" for rule in self.rules.rules.values()):
                check_power(self.p)
        if switching and (not free or only == []):
            return Stay(world.space)  # type: ignore[arg-type]
        given = (self.cond, self.sigma, self.p, self.kappa, self.precision, only)
        conditional = world_conditional(world, *given)
        check_drawable(conditional)
        return conditional

    @property
    def rules(self) -> Transition | None:
        """The rules of single factors, if there are any."""
        return self.transition if isinstance(self.transition, Transition) else None

    def check(self, world: AnyWorld) -> None:
        """Raise UserError if the world has nothing that could switch; in an environment it may be held."""
        if self.switch and not self.switching(world):
            raise UserError("No categorical factor changes here, so there is nothing to switch.")

    def without(self, held: Collection[str]) -> "Sequences":
        """Return these sequences where some factors are set, which replaces their rules in the transition."""
        if not self.rules:
            return self
        kept = {name: rule for name, rule in self.rules.rules.items() if name not in held}
        return replace(self, transition=Transition(kept) if kept else None)

    def switching(self, world: AnyWorld) -> tuple[int, ...]:
        """Return the columns of the categorical factors that may switch."""
        if not self.switch or not isinstance(world, Factors):
            return ()
        wanted = world.names if self.only is None else [m for n in self.only for m in world.groups.get(n, (n,))]
        return tuple(k for k in world.categorical if world.names[k] in wanted and world.names[k] not in world.held)

    def check_number(self, n: int) -> None:
        """Raise UserError unless n images are whole sequences."""
        if rest := n % self.length:
            raise UserError(
                f"{n:,} images are no whole number of sequences of {self.length} frames; take "
                f"{' or '.join(f'{m:,}' for m in (n - rest, n - rest + self.length) if m)}."
            )

    @property
    def words(self) -> str:
        """How frames follow one another, in words."""
        given = {"sigma": self.sigma, "p": self.p if "gennorm" in self.cond else None, "kappa": self.kappa}
        given |= {"Λ": self.precision, "switch": self.switch or None}
        said = [f"{name} {_shown(value)}" for name, value in given.items() if value is not None]
        only = [] if self.only is None else [f"only {', '.join(self.only)}"]
        own = [f"with a transition of {', '.join(self.rules.rules)}"] if self.rules else []
        return ", ".join([f"{self.cond} around the frame before", *said, *only, *own])

    @property
    def short_name(self) -> str:
        """What a folder's name says of it: the frames, the conditional, and a digest of all else that is not usual."""
        plain = Sequences(self.length, self.cond, self.sigma)
        width = f"{self.sigma:g}" if isinstance(self.sigma, float) else ""
        is_plain = self == plain and not isinstance(self.sigma, tuple)
        rest = "" if is_plain else f"-{hashlib.sha256(json.dumps(self.as_dict()).encode()).hexdigest()[:8]}"
        return f"{self.length}frames-{self.cond.replace(',', '+')}{width}{rest}"

    def as_dict(self) -> dict[str, Any]:
        """Return the settings in JSON types, for ``dataset.json``; what is at its default is left out."""
        content: dict[str, Any] = {"length": self.length, "cond": self.cond, "sigma": self.sigma}
        for each in fields(self)[3:]:
            if (value := getattr(self, each.name)) != each.default:
                content[each.name] = value.as_dict() if isinstance(value, Transition) else value
        return {name: list(value) if isinstance(value, tuple) else value for name, value in content.items()}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Sequences":
        """Return the settings that as_dict wrote; raise UserError for what is not known."""
        if not isinstance(settings, Mapping):
            raise UserError(f"The recorded settings of sequences are no table: {settings!r}.")
        for name in settings:
            check_known("setting of sequences", name, [each.name for each in fields(cls)])
        if "transition" in settings:
            return cls(**{**settings, "transition": Transition.from_dict(settings["transition"])})
        return cls(**settings)


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{name} is a number, not {value!r}.")
    return float(value)


def _number_or_numbers(name: str, value: Any) -> float | tuple[float, ...] | None:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return _number(name, value)
    numbers = tuple(_number(name, each) for each in value)
    return tuple(each for each in numbers if each is not None)


def _shown(value: Any) -> str:
    return ", ".join(f"{each:g}" for each in value) if isinstance(value, tuple) else f"{value:g}"
