"""`Views`: several images of one z, of which some latents are redrawn or the camera is another, as settings."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from ident3d.errors import UserError, check_known, unknown
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.factor import check_factor_name
from ident3d.latents.factors import Factors
from ident3d.latents.sequences import Sequences
from ident3d.latents.world_conditional import DEFAULT_SIGMA
from ident3d.latents.worlds import AnyWorld, World

MOST: Final = 100
# What stands for the eight numbers of the periodic world's angles, which are drawn together.
SPHERE: Final = "sphere"


@dataclass(frozen=True)
class Views:
    """Views of one z: image i is view i mod `number` of instance i // `number`.

    View 0 is drawn as any image is. Each further view has its shared latents, and its class. Private latents are drawn
    anew: from the marginal, independently of view 0 and of one another, or with `cond` from that conditional around
    view 0. Categorical private factors are always drawn from the marginal. In a causal graph a private latent is drawn
    given its parents; so no private latent may be a cause of a shared one.

    Args:
        number: Views of each instance, from 2 on.
        private: Names of the latents, or of groups of them, that are drawn anew. All others are shared.
        cond: The conditional of private latents, as `ident3d.latents.conditional` takes it; None for the marginal.
        sigma: Its width, one number or one per latent; None for a uniform that does not depend on view 0.
        p: The power of gennorm.
        kappa: The concentration of vmf.
        precision: The diagonal of Λ of rejected_normal, one number or one per latent.
        cameras: The camera of each view, by name; empty if all views are seen as images are.

    Example:
        >>> from ident3d import Recipe, Views, World
        >>> recipe = Recipe(World("3dident"), views=Views(2, private=("hue",)))
        >>> recipe.views.blocks(recipe.world)["private"]
        ('object_hue', 'spotlight_hue', 'ground_hue')
    """

    number: int
    private: Sequence[str] = ()
    cond: str | None = None
    sigma: float | Sequence[float] | None = DEFAULT_SIGMA
    p: float = 3.0
    kappa: float | None = None
    precision: float | Sequence[float] | None = None
    cameras: Sequence[str] = ()

    def __post_init__(self) -> None:
        if type(self.number) is not int or not 2 <= self.number <= MOST:
            raise UserError(f"There are 2 to {MOST} views of each z, not {self.number!r}.")
        for name in ("private", "cameras"):
            value = getattr(self, name)
            listed = isinstance(value, Sequence) and not isinstance(value, str)
            if not (listed and all(isinstance(each, str) for each in value)):
                raise UserError(f"`{name}` is a list of names, not {value!r}.")
            # A frozen object is filled once, here: two that mean the same are equal.
            self.__dict__[name] = tuple(value)
        for camera in self.cameras:
            check_factor_name(camera, "camera")
        if self.cameras and len(self.cameras) != self.number:
            raise UserError(f"Each of the {self.number} views has one camera; {len(self.cameras)} are named.")
        if not self.private and len(set(self.cameras)) < 2:
            raise UserError("All views would show the same: name private latents, or cameras that differ.")
        # What a conditional takes is checked where sequences check it.
        checked = Sequences(2, self.cond or "normal", self.sigma, self.p, self.kappa, self.precision)
        for name in ("sigma", "p", "kappa", "precision"):
            self.__dict__[name] = getattr(checked, name)
        if self.cond is None and any(getattr(self, each.name) != each.default for each in fields(self)[3:7]):
            raise UserError("Without `cond`, private latents are drawn from the marginal, which takes no width.")
        if self.cond is not None and not self.private:
            raise UserError("A conditional is for private latents, and none is named.")

    def blocks(self, world: AnyWorld) -> dict[str, tuple[str, ...]]:
        """Return shared and private → the latents that vary and are so; raise UserError if the world has no such.

        A block of none is left out. That of shared latents may be empty only if views share a class.
        """
        private = self.private_names(world)
        moving = [name for name in world.names if name not in world.held]
        found = {
            "shared": tuple(name for name in moving if name not in private),
            "private": tuple(name for name in moving if name in private),
        }
        if private and not found["private"]:
            raise UserError(
                f"All private latents are held fixed ({', '.join(sorted(private))}), so no view is another."
            )
        if not found["shared"] and len(world.drawn_classes) < 2:
            raise UserError("All latents are private, so that views have nothing in common.")
        return {name: latents for name, latents in found.items() if latents}

    def private_names(self, world: AnyWorld) -> set[str]:
        """Return the single latents that are private; groups are resolved."""
        periodic = isinstance(world, World) and world.periodic
        sphere = {name for name in world.names if name.startswith("sphere_")} if periodic else set[str]()
        groups = {name: set(members) for name, members in world.groups.items() if set(members) <= set(world.names)}
        groups |= {SPHERE: sphere} if periodic else {}
        found = set[str]()
        for name in self.private:
            if name == "class" and world.drawn_classes:
                raise UserError("The class is shared by all views; it cannot be private.")
            members = groups.get(name, {name})
            if not members <= set(world.names):
                raise unknown("latent", name, (*world.names, *groups))
            found |= members
        if sphere & found and not sphere <= found:
            raise UserError(
                f"The periodic world draws its angles together, so either all or none of them are private: {SPHERE!r} "
                "names them all."
            )
        return found

    def check(self, world: AnyWorld) -> None:
        """Raise UserError if views cannot be drawn so in this world, or this environment of it."""
        private = self.private_names(world) - set(world.held)
        if self.cond is None and world.mechanisms is not None:
            for child, parents in world.mechanisms.parents.items():
                if child not in private and child not in world.held and (causes := sorted(parents & private)):
                    raise UserError(
                        f"{causes[0]} is private and a cause of {child}, which is shared: make both private, or draw "
                        "private latents from a conditional (--cond)."
                    )
        self.around(world)

    def around(self, world: AnyWorld) -> tuple[Sequences, Conditional] | None:
        """Return how ordered private latents follow from view 0, as a next frame follows; None for the marginal.

        In an environment that holds them all, none does.
        """
        categories = {world.names[k] for k in world.categorical} if isinstance(world, Factors) else set[str]()
        private = self.private_names(world) - categories - set(world.held)
        if self.cond is None or not private:
            return None
        only = tuple(name for name in world.names if name in private)
        step = Sequences(2, self.cond, self.sigma, self.p, self.kappa, self.precision, only)
        return step, step.conditional(world)

    def check_number(self, n: int) -> None:
        """Raise UserError unless n images are whole instances."""
        if rest := n % self.number:
            raise UserError(
                f"{n:,} images are no whole number of instances of {self.number} views; take "
                f"{' or '.join(f'{m:,}' for m in (n - rest, n - rest + self.number) if m)}."
            )

    @property
    def words(self) -> str:
        """How private latents are drawn, in words."""
        if self.cond is None:
            return "drawn anew from the marginal"
        around = Sequences(2, self.cond, self.sigma, self.p, self.kappa, self.precision).words
        return around.replace("around the frame before", "around view 0")

    @property
    def short_name(self) -> str:
        """What a folder's name says of it: the number of views, and a digest of all else."""
        return f"{self.number}views-{hashlib.sha256(json.dumps(self.as_dict()).encode()).hexdigest()[:8]}"

    def as_dict(self) -> dict[str, Any]:
        """Return the settings in JSON types, for ``dataset.json``; what is at its default is left out."""
        content: dict[str, Any] = {"number": self.number, "private": list(self.private)}
        for each in fields(self)[2:]:
            value = getattr(self, each.name)
            if value != each.default or (each.name == "sigma" and self.cond is not None):
                content[each.name] = list(value) if isinstance(value, tuple) else value
        return content

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Views":
        """Return the settings that as_dict wrote; raise UserError for what is not known."""
        if not isinstance(settings, Mapping) or "number" not in settings:
            raise UserError(f"The recorded settings of views are no table of them: {settings!r}.")
        for name in settings:
            check_known("setting of views", name, [each.name for each in fields(cls)])
        return cls(**settings)
