"""Noise of a few families around a centre, on the line or truncated to a range, from one uniform variate each.

`latents.distributions.families` has the same distributions by the maths library, for training. These here are for what
is rendered, and agree to the last bit on every machine.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.exact.arithmetic import Float64, exp, log, normal_cdf, normal_quantile, sin_cos
from ident3d.latents.exact.powers import exponential, power

BELOW_ONE: Final = 1 - 2.0**-53
# Cells of a table of a density. Taken as straight in each, it is off by less than 1e-5 of itself.
CELLS: Final = 2**14
# Beyond e^-40 of its peak a density is left out.
TAIL: Final = 40.0
# Powers p of generalized normals that a table describes.
POWERS: Final = (1.0, 100.0)


def truncated_normal(low: float | Float64, high: float | Float64, mean: Float64, sd: Float64, u: Float64) -> Float64:
    """Return μ + sd Φ⁻¹(Φ(a) + u (Φ(b) - Φ(a))), a and b the range; mirrored if the range is in the upper tail."""
    a, b = (low - mean) / sd, (high - mean) / sd
    # In the upper tail Φ is 1 up to a few last digits; in the lower one it keeps all of them.
    mirrored = a + b > 0
    a, b = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    lower, upper = normal_cdf(a), normal_cdf(b)
    # Rounding must not reach 1, where the quantile is infinite.
    score = normal_quantile(np.minimum(lower + u * (upper - lower), BELOW_ONE))
    value: Float64 = np.clip(mean + sd * np.where(mirrored, -score, score), low, high)
    return value


def truncated_laplace(
    low: float | Float64, high: float | Float64, mean: Float64, scale: Float64, u: Float64
) -> Float64:
    """Return the same with F(t) = eᵗ/2 below 0 and 1 - e⁻ᵗ/2 above, t in units of the scale."""
    a, b = (low - mean) / scale, (high - mean) / scale
    mirrored = a + b > 0
    # Beyond 690 nothing is left of the tail.
    a, b = (np.clip(end, -690.0, 690.0) for end in (np.where(mirrored, -b, a), np.where(mirrored, -a, b)))
    tails = [exp(-np.abs(end)) / 2 for end in (a, b)]
    lower, upper = (np.where(end < 0, tail, 1 - tail) for end, tail in zip((a, b), tails, strict=True))
    # 1 - u keeps a larger u a larger value.
    p = np.minimum(lower + np.where(mirrored, 1 - u, u) * (upper - lower), BELOW_ONE)
    score = laplace_quantile(p)
    value: Float64 = np.clip(mean + scale * np.where(mirrored, -score, score), low, high)
    return value


def laplace_quantile(p: Float64) -> Float64:
    """Return the t with F(t) = p, F as above."""
    tail = log(2 * np.where(p < 0.5, p, 1 - p))
    return np.where(p < 0.5, tail, -tail)


def truncated_window(
    low: float | Float64, high: float | Float64, centre: Float64, half: Float64, u: Float64
) -> Float64:
    """Return a uniform draw between centre - half and centre + half, as far as they lie in the range."""
    first, last = np.clip(centre - half, low, high), np.clip(centre + half, low, high)
    return np.asarray(first + u * (last - first))


class Table(NamedTuple):
    """A density on [0, end], straight between equally spaced knots: its values, and its mass below each knot."""

    end: float
    density: Float64
    below: Float64

    def mass(self, x: Float64) -> Float64:
        """Return the mass between 0 and x, with the sign of x."""
        step = self.end / CELLS
        size = np.minimum(np.abs(x), self.end)
        cell = np.minimum(size / step, CELLS - 1).astype(np.int64)
        s, left, right = size - cell * step, self.density[cell], self.density[cell + 1]
        total = self.below[cell] + s * (left + (right - left) * s / (2 * step))
        return np.where(x < 0, -total, total)

    def quantile(self, mass: Float64) -> Float64:
        """Return the x with this mass between 0 and x, with the sign of the mass."""
        step = self.end / CELLS
        size = np.minimum(np.abs(mass), self.below[-1])
        cell = np.clip(np.searchsorted(self.below, size, "right") - 1, 0, CELLS - 1)
        rest, left, right = size - self.below[cell], self.density[cell], self.density[cell + 1]
        # The root of left s + (right - left) s² / 2 step = rest, in the form that cancels nothing.
        root = left + np.sqrt(np.maximum(left * left + 2 * (right - left) / step * rest, 0.0))
        s = np.minimum(2 * rest / np.where(root == 0, 1.0, root), step)
        x = cell * step + s
        return np.where(mass < 0, -x, x)


def table_of(knots: Float64, density: Float64) -> Table:
    """Return the table of a density at knots from 0 on."""
    # Summed one after the other, which is the same on every machine.
    cells = (density[1:] + density[:-1]) / 2 * (knots[-1] / CELLS)
    return Table(float(knots[-1]), density, np.concatenate([[0.0], np.add.accumulate(cells)]))


@lru_cache
def power_table(p: float) -> Table:
    """Return the table of exp(-x^p), whose total is Γ(1 + 1/p), for p within POWERS."""
    x = np.arange(CELLS + 1) / CELLS * float(power(np.asarray(TAIL), 1 / p))
    # Of smaller numbers the power would leave the range of float64, and the density is 1 already.
    least = float(power(np.asarray(1e-200), 1 / p))
    return table_of(x, exponential(-power(np.where(x < least, 0.0, x), p)))


@lru_cache
def angle_table(dim: int, kappa: float) -> Table:
    """Return the table of exp(κ (cos θ - 1)) sin^(dim-2) θ, the angle of vMF on S^(dim-1) to its mean."""
    # 1 - cos θ ≥ 2 (θ/π)², so that beyond this angle the density has fallen by e^-80 at least.
    end = np.pi if kappa <= TAIL else np.pi * float(np.sqrt(TAIL / kappa))
    theta = np.arange(CELLS + 1) / CELLS * end
    half = sin_cos(theta / 2)[0]
    density, sine = exponential(-2 * kappa * half * half), np.maximum(sin_cos(theta)[0], 0.0)
    for _ in range(dim - 2):
        density = density * sine
    return table_of(theta, density / density.max())


def truncated_power(
    p: float, low: float | Float64, high: float | Float64, centre: Float64, scale: Float64, u: Float64
) -> Float64:
    """Return a draw from exp(-(|x - centre|/scale)^p) on the range."""
    table = power_table(p)
    lower, upper = (table.mass((end - centre) / scale) for end in (low, high))
    return np.clip(centre + scale * table.quantile(lower + u * (upper - lower)), low, high)


def truncated(
    family: str, p: float, low: float | Float64, high: float | Float64, centre: Float64, scale: Float64, u: Float64
) -> Float64:
    """Return a draw from a family around a centre, truncated to [low, high]."""
    match family:
        case "normal":
            return truncated_normal(low, high, centre, scale, u)
        case "laplace":
            return truncated_laplace(low, high, centre, scale, u)
        case "gennorm":
            return truncated_power(p, low, high, centre, scale, u)
    return truncated_window(low, high, centre, scale, u)


def noise(family: str, p: float, u: Float64) -> Float64:
    """Return a draw from a family around 0, of scale 1, not truncated."""
    match family:
        case "normal":
            return normal_quantile(u)
        case "laplace":
            return laplace_quantile(u)
        case "gennorm":
            table = power_table(p)
            return table.quantile((2 * u - 1) * table.below[-1])
    return 2 * u - 1


def wrapped(x: Float64) -> Float64:
    """Return the number in [-1, 1) that is x, whole turns of 2 away."""
    return np.asarray(x - 2 * np.floor((x + 1) / 2))


def unit(x: Float64) -> Float64:
    """Return x / |x| for each row."""
    square: NDArray[np.float64] = np.zeros(len(x))
    # Not np.sum: its order of additions differs between NumPy's versions and processors, and so would the last bits.
    for column in x.T:
        square = square + column * column
    return np.asarray(x / np.sqrt(square)[:, None])
