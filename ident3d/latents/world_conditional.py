"""A conditional on a world's raw latents, by name: which latents change from anchor to positive, or frame to frame."""

from collections.abc import Sequence
from typing import Final

from ident3d.errors import UserError, unknown
from ident3d.latents.distributions.by_name import conditional
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import AnyWorld

# The papers' width.
DEFAULT_SIGMA: Final = 0.1


def world_conditional(
    world: AnyWorld,
    cond: str,
    sigma: float | Sequence[float] | None = DEFAULT_SIGMA,
    p: float = 3.0,
    kappa: float | None = None,
    precision: float | Sequence[float] | None = None,
    only: Sequence[str] | None = None,
) -> Conditional:
    """Return a conditional by name on a world's raw latents.

    `only` names latents, groups of them, or views (positions, rotations, hues). Latents held fixed never change, and
    neither do categorical factors.
    """
    # Nothing would take them, and the pairs would have another width than the user thinks.
    for given, what, takes in ((kappa, "--kappa", "vmf"), (precision, "--lambda (`precision`)", "rejected_normal")):
        if given is not None and takes not in cond.split(","):
            raise UserError(f"{what} is for the conditional {takes}; the width of {cond} is --sigma (1/√Λ).")
    sets = world.groups
    content = {world.names[k] for k in world.categorical} if isinstance(world, Factors) else set[str]()
    if stays := content & set(only or ()):
        raise UserError(
            f"{min(stays)} is categorical: both images of a pair have the same value; among frames --switch changes it."
        )
    wanted = list(world.names) if only is None else []
    for name in only or ():
        members = sets.get(name, (name,))
        if not set(members) <= set(world.names):
            raise unknown("latent", name, (*world.names, *(s for s in sets if set(sets[s]) <= set(world.names))))
        wanted += members
    # A conditional that moved a fixed latent would ask for images that were never rendered.
    moving = tuple(k for k, name in enumerate(world.names) if name in wanted and name not in {*world.held, *content})
    if not moving:
        raise UserError("At least one latent must change between anchor and positive.")
    return conditional(cond, world.space, sigma=sigma, p=p, kappa=kappa, precision=precision, only=moving)
