"""Conditionals and marginals by name, as the command line gives them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from array_api_compat import array_namespace, device

from ident3d.errors import UserError, check_known
from ident3d.latents.distributions import conditionals as c
from ident3d.latents.distributions.families import Family, GeneralizedNormal, Laplace, Normal, Window
from ident3d.latents.distributions.spaces import Box, Circle, Part, Product, Space, Sphere, Unbounded
from ident3d.latents.distributions.special import Array, constant

CONDITIONALS: Final = ("normal", "laplace", "gennorm", "uniform", "vmf", "rejected_normal")
FAMILIES: Final[dict[str, Family]] = {"normal": Normal(), "laplace": Laplace(), "uniform": Window()}
MARGINALS: Final = ("uniform", "normal", "laplace", "gennorm", "vmf")


def conditional(
    name: str,
    space: Space,
    *,
    sigma: float | Sequence[float] | None = None,
    p: float = 3.0,
    kappa: float | None = None,
    precision: float | Sequence[float] | None = None,
    threshold: float = 0.1,
    only: Iterable[int] | None = None,
) -> c.Conditional:
    """Return p(z̃ | z) by name, on a space.

    =================== ============================================ ==========================================
    normal              exp(-(z̃-z)²/2σ²) per coordinate              sigma = σ, a standard deviation
    laplace             exp(-|z̃-z|/λ)                                sigma = λ, a scale
    gennorm             exp(-(|z̃-z|/λ)^p)                            sigma = λ, a scale; p
    uniform             within ±w of z, or independent of z          sigma = w, or none
    vmf                 exp(κ z̃ᵀz) on the sphere                     kappa
    rejected_normal     z + N(0, 1/Λ) near the sphere, projected     precision = Λ (AnInfoNCE), threshold
    =================== ============================================ ==========================================

    On the box the first four are truncated, on circles wrapped, on the sphere projected. `sigma` and Λ are one number
    or one per dimension; `only` lists the dimensions that change, the others stay. On a product the name holds for each
    factor, or names joined by commas go to one factor each.

    Args:
        name: A name of the table, or on a product one for each factor, joined by commas.
        space: Where the latents live, of dim dimensions.
        sigma: The width, one number or one per dimension (dim,).
        p: The power of gennorm.
        kappa: The concentration κ of vmf, at least 0.
        precision: The diagonal of Λ, one number or one per dimension (dim,).
        threshold: How far from the sphere rejected_normal keeps a draw.
        only: The dimensions that change, counted from 0; all by default.

    Returns:
        A `Conditional`: its `sample(z, uniform)` draws a positive (n, dim) for every row of z (n, dim).

    Example:
        >>> import numpy as np
        >>> from ident3d import latents
        >>> made = latents.conditional("normal", latents.Box(3), sigma=0.1, only=[0, 2])
        >>> uniform = latents.uniforms(np.random.default_rng(0))
        >>> z = latents.marginal("uniform", latents.Box(3)).sample(1000, uniform)
        >>> np.abs(made.sample(z, uniform) - z).mean(axis=0).round(2).tolist()
        [0.08, 0.0, 0.08]
    """
    moving = tuple(range(space.dim)) if only is None else tuple(only)
    for k in moving:
        if not 0 <= k < space.dim:
            raise UserError(f"There is no latent number {k}: the space has {space.dim} dimensions, counted from 0.")
    widths = None if sigma is None else _per_dimension("sigma", sigma, space.dim)
    precisions = None if precision is None else _per_dimension("precision", precision, space.dim)
    if isinstance(space, Product):
        names = name.split(",") if "," in name else [name] * len(space.parts)
        if len(names) != len(space.parts):
            raise UserError(
                f"The space has {len(space.parts)} factors, so it takes as many conditionals, not {name!r}."
            )
        parts = []
        for part_name, part, where in zip(names, space.parts, space.slices, strict=True):
            chosen = {k - where.start for k in moving if where.start <= k < where.stop}
            part_widths = widths and widths[where]
            part_precisions = precisions and precisions[where]
            parts.append(_on_factor(part_name, part, part_widths, p, kappa, part_precisions, threshold, chosen))
        return c.ProductConditional(space, tuple(parts))
    return _on_factor(name, space, widths, p, kappa, precisions, threshold, set(moving))


def _on_factor(
    name: str,
    space: Part,
    widths: tuple[float, ...] | None,
    p: float,
    kappa: float | None,
    precision: tuple[float, ...] | None,
    threshold: float,
    moving: set[int],
) -> c.Conditional:
    check_known("conditional", name, CONDITIONALS)
    if not moving:
        return c.Stay(space)
    if isinstance(space, Sphere) and len(moving) < space.dim:
        raise UserError("On the sphere no latent can stay while others change, since all share one length.")
    if name in ("vmf", "rejected_normal"):
        if not isinstance(space, Sphere):
            raise UserError(
                f"The conditional {name} lives on the sphere; elsewhere choose normal, laplace, gennorm or uniform."
            )
        if name == "vmf":
            if kappa is None or not 0 <= kappa < math.inf:
                raise UserError(f"The conditional vmf needs a concentration kappa of at least 0, not {kappa}.")
            return c.VonMisesFisher(space, float(kappa))
        if precision is None:
            raise UserError("The conditional rejected_normal needs its precision Λ.")
        return c.RejectedNormal(space, precision, _positive("threshold", threshold))
    if name == "uniform" and widths is None and isinstance(space, Box | Circle | Sphere):
        if len(moving) == space.dim:
            return c.Uniform(space)
        # A window of twice the box reaches every point from every anchor, so the draw does not depend on z.
        widths = (2 * (space.high - space.low),) * space.dim if isinstance(space, Box) else None
    if widths is None:
        raise UserError(f"The conditional {name} needs its width sigma.")
    # A scale of 0 marks a coordinate that stays.
    scale = tuple(width if k in moving else 0.0 for k, width in enumerate(widths))
    return c.Coordinatewise(space, GeneralizedNormal(float(p)) if name == "gennorm" else FAMILIES[name], scale)


@dataclass(frozen=True)
class Marginal:
    """p(z): a conditional around one fixed point, the centre of the box, a pole of the sphere or the origin."""

    conditional: c.Conditional

    def sample(self, n: int, uniform: c.Uniforms) -> Array:
        """Return n draws, (n, dim), in the namespace of the uniform variates."""
        space = self.conditional.space
        # No variates at all, only to see their namespace, type and device.
        variates = uniform((0,))
        centre = constant(space.centre, variates)
        return self.conditional.sample(array_namespace(variates).broadcast_to(centre, (n, space.dim)), uniform)


def marginal(
    name: str, space: Space, *, sigma: float | Sequence[float] | None = None, p: float = 3.0, kappa: float | None = None
) -> Marginal:
    """Return p(z) by name: uniform, or one of the conditionals around the space's centre (see `conditional`).

    Args:
        name: uniform, normal, laplace, gennorm or vmf, or on a product one for each factor, joined by commas.
        space: Where the latents live, of dim dimensions.
        sigma: The width, one number or one per dimension (dim,).
        p: The power of gennorm.
        kappa: The concentration κ of vmf, at least 0.

    Returns:
        A `Marginal`: its `sample(n, uniform)` draws latents (n, dim).

    Example:
        >>> import torch
        >>> from ident3d import latents
        >>> uniform = latents.uniforms(torch.Generator().manual_seed(0), like=torch.zeros(()))
        >>> z = latents.marginal("vmf", latents.Sphere(5), kappa=10).sample(100, uniform)
        >>> z.shape, bool(torch.allclose(z.norm(dim=1), torch.ones(100)))
        (torch.Size([100, 5]), True)
    """
    for single in name.split(","):
        check_known("marginal", single, MARGINALS)
    if name == "uniform" and isinstance(space, Unbounded):
        raise UserError("The unbounded space has no uniform marginal; choose normal, laplace or gennorm.")
    return Marginal(conditional(name, space, sigma=None if name == "uniform" else sigma, p=p, kappa=kappa))


def uniforms(generator: Any, like: Array | None = None) -> c.Uniforms:
    """Return a function from a shape to U[0, 1) variates.

    They come from a NumPy Generator, or from a torch.Generator and a tensor of the wanted type and device.

    Args:
        generator: A `numpy.random.Generator` or a `torch.Generator`.
        like: An array that shows the type and the device of the variates; torch needs one.

    Returns:
        A function from a shape to variates.

    Example:
        >>> import numpy as np
        >>> from ident3d import latents
        >>> latents.uniforms(np.random.default_rng(0))((2, 3)).shape
        (2, 3)
    """
    if hasattr(generator, "random"):
        dtype = np.float64 if like is None else like.dtype
        return lambda shape: generator.random(shape, dtype)
    if like is None:
        raise UserError("A torch generator needs a tensor that shows which type and device its variates shall have.")
    xp = array_namespace(like)
    return lambda shape: xp.rand(shape, generator=generator, dtype=like.dtype, device=device(like))


def _per_dimension(name: str, value: float | Sequence[float], dim: int) -> tuple[float, ...]:
    try:
        values = (float(value),) * dim if isinstance(value, int | float | np.number) else tuple(float(v) for v in value)
    except (TypeError, ValueError):
        raise UserError(f"{name} is one number or {dim}, not {value!r}.") from None
    if len(values) != dim:
        raise UserError(f"There are {dim} dimensions, so {name} is one number or {dim}, not {len(values)}.")
    return tuple(_positive(name, v) for v in values)


def _positive(name: str, value: float) -> float:
    # Beyond these float32 can no longer divide by it.
    if not 1e-30 <= value <= 1e30:
        raise UserError(f"{name} must be positive, and between 1e-30 and 1e30, not {value:g}.")
    return float(value)
