"""Symmetric distributions on the line, at unit scale, as two functions of each other's inverse.

`mass(x)` is the probability of (-|x|, |x|) with the sign of x, `quantile(t)` its inverse on (-1, 1). Measuring from the
centre instead of from -∞ keeps a wide distribution precise when it is truncated to a narrow box.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from array_api_compat import array_namespace

from ident3d.errors import UserError
from ident3d.latents.distributions import quantile_tables as tables
from ident3d.latents.distributions.special import Array, constant, functions


class Family(Protocol):
    def density(self, x: Array) -> Array: ...
    def mass(self, x: Array) -> Array: ...
    def quantile(self, t: Array) -> Array: ...


@dataclass(frozen=True)
class Normal:
    """f(x) = exp(-x²/2) / √(2π); the scale is the standard deviation."""

    def density(self, x: Array) -> Array:
        return array_namespace(x).exp(-x * x / 2) / (2 * math.pi) ** 0.5

    def mass(self, x: Array) -> Array:
        return functions(array_namespace(x)).erf(x / 2**0.5)

    def quantile(self, t: Array) -> Array:
        return 2**0.5 * functions(array_namespace(t)).erfinv(t)


@dataclass(frozen=True)
class Laplace:
    """f(x) = exp(-|x|) / 2."""

    def density(self, x: Array) -> Array:
        xp = array_namespace(x)
        return xp.exp(-xp.abs(x)) / 2

    def mass(self, x: Array) -> Array:
        xp = array_namespace(x)
        return -xp.sign(x) * xp.expm1(-xp.abs(x))

    def quantile(self, t: Array) -> Array:
        xp = array_namespace(t)
        return -xp.sign(t) * xp.log1p(-xp.abs(t))


@dataclass(frozen=True)
class GeneralizedNormal:
    """f(x) = p / (2 Γ(1/p)) · exp(-|x|^p): Laplace at p = 1, a normal of standard deviation √½ at p = 2."""

    p: float

    def __post_init__(self) -> None:
        if not 0.1 <= self.p <= 1000:
            raise UserError(f"The exponent p of a generalized normal lies between 0.1 and 1000, not at {self.p:g}.")

    def density(self, x: Array) -> Array:
        xp = array_namespace(x)
        return xp.exp(-(xp.abs(x) ** self.p)) / (2 * math.gamma(1 + 1 / self.p))

    def mass(self, x: Array) -> Array:
        xp = array_namespace(x)
        # Only e^-1000 of the mass is beyond; larger powers would overflow.
        size = xp.clip(xp.abs(x), 0, 1000 ** (1 / self.p))
        power = size**self.p
        # A tiny |x|^p underflows, but by then the function is a straight line to the last digit.
        line = size / math.gamma(1 + 1 / self.p)
        curve = xp.astype(functions(xp).gammainc(constant(1 / self.p, x), power), x.dtype)
        return xp.sign(x) * xp.where(power < xp.finfo(x.dtype).eps / 8, line, curve)

    def quantile(self, t: Array) -> Array:
        xp = array_namespace(t)
        score = 2**0.5 * functions(xp).erfinv(xp.abs(t))
        return xp.sign(t) * tables.look_up(tables.generalized_normal(self.p), 0.0, score)


@dataclass(frozen=True)
class Window:
    """f(x) = 1/2 on (-1, 1): the uniform distribution, the scale its half width."""

    def density(self, x: Array) -> Array:
        xp = array_namespace(x)
        return xp.where(xp.abs(x) < 1, constant(0.5, x), constant(0.0, x))

    def mass(self, x: Array) -> Array:
        return array_namespace(x).clip(x, -1, 1)

    def quantile(self, t: Array) -> Array:
        return t
