"""Conditionals p(z̃ | z): how the positive z̃ of a pair differs from its anchor z.

Each turns uniform variates into draws by inverse distribution functions, in the namespace, type and device of its
arguments: ``transform(z, u)`` is a pure function of two arrays (..., dim). ``sample(z, uniform)`` asks the callable
`uniform` for variates of a shape, and serves every conditional, also the one that has to reject.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from array_api_compat import array_namespace, device

from ident3d.errors import UserError
from ident3d.latents.distributions import quantile_tables as tables
from ident3d.latents.distributions.families import Family
from ident3d.latents.distributions.spaces import Box, Circle, Part, Product, Space, Sphere
from ident3d.latents.distributions.special import Array, constant, inside, normal_variates

Uniforms: TypeAlias = Callable[[tuple[int, ...]], Array]  # shape → U(0, 1)


class Conditional(Protocol):
    """What a conditional has: its space, and a function that draws a positive for every anchor.

    Example:
        >>> import numpy as np
        >>> from ident3d import latents
        >>> uniform = latents.uniforms(np.random.default_rng(0))
        >>> latents.conditional("vmf", latents.Sphere(3), kappa=20).sample(np.eye(3), uniform).shape
        (3, 3)
    """

    @property
    def space(self) -> Space:
        """Where anchors and positives live."""
        ...

    def sample(self, z: Array, uniform: Uniforms) -> Array:
        """Draw z̃ ~ p(· | z) for every row of z, shape (n, dim)."""
        ...


class Transform(ABC):
    """A conditional that needs one uniform variate per coordinate."""

    @abstractmethod
    def transform(self, z: Array, u: Array) -> Array:
        """Return z̃ of anchors and variates, arrays (..., dim) of one kind; a pure function."""

    def sample(self, z: Array, uniform: Uniforms) -> Array:
        return self.transform(z, uniform(tuple(z.shape)))


@dataclass(frozen=True)
class Coordinatewise(Transform):
    """p(z̃ | z) ∝ Π_k f((z̃_k - z_k) / scale_k), truncated to the box.

    On the sphere z + noise is projected, x / |x|; on circles it is wrapped into [-1, 1).

    Coordinates whose scale is 0 stay as they are (the content of a pair).
    """

    space: Part
    family: Family
    scale: tuple[float, ...]

    def transform(self, z: Array, u: Array) -> Array:
        xp = array_namespace(z, u)
        moves = constant(self.scale, z) > 0
        # A coordinate that stays has scale 0: 1 stands in for it, so that nothing is divided by 0.
        scale = xp.where(moves, constant(self.scale, z), constant(1.0, z))
        if not isinstance(self.space, Box):
            moved = xp.where(moves, z + scale * self.family.quantile(inside(2 * u - 1)), z)
            if isinstance(self.space, Circle):
                return xp.where(moves, moved - 2 * xp.floor((moved + 1) / 2), z)
            return _unit(moved) if isinstance(self.space, Sphere) else moved
        # The truncated inverse: u runs over the mass between the bounds alone, so nothing has to be rejected.
        low = self.family.mass((self.space.low - z) / scale)
        high = self.family.mass((self.space.high - z) / scale)
        moved = z + scale * self.family.quantile(inside(low + u * (high - low)))
        return xp.where(moves, xp.clip(moved, self.space.low, self.space.high), z)


@dataclass(frozen=True)
class Uniform(Transform):
    """z̃ uniform on the box, circles or the sphere, whatever z is."""

    space: Box | Circle | Sphere

    def transform(self, z: Array, u: Array) -> Array:
        if isinstance(self.space, Sphere):
            return _unit(normal_variates(u))
        return self.space.low + (self.space.high - self.space.low) * u


@dataclass(frozen=True)
class VonMisesFisher(Transform):
    """p(z̃ | z) ∝ exp(κ z̃ᵀz) on the unit sphere.

    The angle θ to z comes from its own distribution, the direction around z is uniform: (cos θ, s sin θ) with s on
    S^(d-2), in a frame whose first axis a Householder reflection carries to z.
    """

    space: Sphere
    kappa: float

    def transform(self, z: Array, u: Array) -> Array:
        xp = array_namespace(z, u)
        table = tables.von_mises_fisher_angle(self.space.dim, self.kappa)
        # The table is indexed by normal scores, in which the angle is smooth up to the far tails.
        theta = tables.look_up(table, -tables.LAST_SCORE, normal_variates(u[..., :1]))
        around = xp.sin(theta) * _unit(normal_variates(u[..., 1:]))
        # H = 1 - 2 v vᵀ/|v|² with v = e₁ ± z carries e₁ to ∓z; the sign that does not cancel keeps v long.
        sign = xp.where(z[..., :1] < 0, constant(-1.0, z), constant(1.0, z))
        point = xp.concat([-sign * xp.cos(theta), around], axis=-1)
        v = xp.concat([1 + xp.abs(z[..., :1]), sign * z[..., 1:]], axis=-1)
        return point - v * (xp.sum(v * point, axis=-1, keepdims=True) / v[..., :1])


@dataclass(frozen=True)
class RejectedNormal:
    """AnInfoNCE's sampler: x = z + ε, ε_k ~ N(0, 1/Λ_k), kept if ||x| - 1| < threshold, and then z̃ = x / |x|."""

    space: Sphere
    precision: tuple[float, ...]
    threshold: float = 0.1

    def propose(self, z: Array, u: Array) -> tuple[Array, Array]:
        """Return proposals for z̃ and whether each is kept; a pure function."""
        xp = array_namespace(z, u)
        x = z + normal_variates(u) / constant(self.precision, z) ** 0.5
        length = xp.sum(x * x, axis=-1) ** 0.5
        return x / length[..., None], xp.abs(length - 1) < self.threshold

    def sample(self, z: Array, uniform: Uniforms) -> Array:
        """Return for each row the first proposal that is kept; a round costs about as many as z has rows."""
        xp = array_namespace(z)
        n, dim = z.shape
        # A copy, since rows are written into it as their draws are kept.
        result, pending = z + 0, xp.arange(n, device=device(z))
        # The number of rounds is bounded: settings that keep hardly any draw end with an error.
        for _ in range(10_000):
            rows = int(pending.shape[0])
            if rows == 0:
                return result
            # As many proposals a round as there are rows: the last pending rows get many tries at once, and a GPU is
            # asked few times whether all are done.
            tries = max(1, min(n // rows, 1000))
            candidates, kept = self.propose(z[pending], uniform((tries, rows, dim)))
            first = xp.argmax(xp.astype(kept, xp.int8), axis=0)
            found = xp.any(kept, axis=0)
            chosen = candidates[first, xp.arange(rows, device=device(z))]
            result[pending[found]] = chosen[found]
            pending = pending[~found]
        raise UserError(f"Hardly any draw comes within {self.threshold:g} of the sphere: raise Λ or the threshold.")


@dataclass(frozen=True)
class ProductConditional:
    """Independent conditionals on the factors of a product space."""

    space: Product
    parts: tuple[Conditional, ...]

    def sample(self, z: Array, uniform: Uniforms) -> Array:
        xp = array_namespace(z)
        pairs = zip(self.parts, self.space.slices, strict=True)
        return xp.concat([part.sample(z[..., where], uniform) for part, where in pairs], axis=-1)


@dataclass(frozen=True)
class Stay(Transform):
    """z̃ = z: a factor of a product that is content."""

    space: Part

    def transform(self, z: Array, u: Array) -> Array:
        return z


def _unit(x: Array) -> Array:
    xp = array_namespace(x)
    return x / xp.sum(x * x, axis=-1, keepdims=True) ** 0.5
