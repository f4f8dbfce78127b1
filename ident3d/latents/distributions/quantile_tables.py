"""Quantile functions from tables, for distributions whose inverse has no formula.

A table holds x(w) and its derivative at equally spaced normal scores w = Φ⁻¹(u), with a cubic through both. On that
scale the quantile functions here are smooth up to the far tails: the cubic is good to 1e-9 in probability (1e-5 next to
the cusp of a generalized normal with p < 1). A look-up costs a division and a few reads on any device, where a
rejection loop would cost a synchronisation per round.
"""

from functools import lru_cache

import numpy as np
from array_api_compat import array_namespace

from ident3d.latents.distributions.special import Array, constant
from ident3d.latents.exact.arithmetic import Float64

# Φ(-8.5) = 1e-17 lies below what a uniform variate in float64 can ask for.
LAST_SCORE = 8.5
KNOTS = 4096


def look_up(table: Float64, first: float, score: Array) -> Array:
    """Return the cubic Hermite interpolant at the scores; a table has rows x and dx/dw from `first` to LAST_SCORE."""
    xp = array_namespace(score)
    step = (LAST_SCORE - first) / (table.shape[1] - 1)
    position = xp.clip((score - first) / step, 0, table.shape[1] - 1)
    left = xp.clip(xp.floor(position), 0, table.shape[1] - 2)
    s, index = position - left, xp.astype(left, xp.int64)
    x, slope = constant(table[0], score), constant(table[1] * step, score)
    x0, x1, m0, m1 = x[index], x[index + 1], slope[index], slope[index + 1]
    return x0 + s * (m0 + s * (3 * (x1 - x0) - 2 * m0 - m1 + s * (m0 + m1 - 2 * (x1 - x0))))


@lru_cache
def generalized_normal(p: float) -> Float64:
    """Return |x| of the density p / (2 Γ(1/p)) · exp(-|x|^p) at scores 0 … LAST_SCORE; |x|^p has a Gamma(1/p) law."""
    # Only now: SciPy takes a second, which reading and verifying do not need.
    from scipy import special

    w = np.linspace(0, LAST_SCORE, KNOTS)
    inner, outer = special.erf(w / np.sqrt(2)), special.erfc(w / np.sqrt(2))
    power = np.where(w < 1, special.gammaincinv(1 / p, inner), special.gammainccinv(1 / p, outer))
    # Where |x|^p underflows, the distribution function is the straight line |x| / Γ(1 + 1/p).
    x = np.where(power < 1e-290, inner * special.gamma(1 + 1 / p), power ** (1 / p))
    density = np.exp(-(x**p)) / (2 * special.gamma(1 + 1 / p))
    return np.stack([x, np.exp(-0.5 * w * w) / np.sqrt(2 * np.pi) / density])


@lru_cache
def von_mises_fisher_angle(dim: int, kappa: float) -> Float64:
    """Return θ between a vMF variate on S^(dim-1) and its mean, at all scores: p ∝ exp(κ (cos θ - 1)) sin^(dim-2) θ."""
    from scipy import special

    nodes, weights = special.roots_legendre(8)
    # Beyond this angle the density has fallen by e^-60 at least.
    end = 2 * np.arcsin(min(1.0, np.sqrt((60 + 2 * dim) / (2 * kappa)))) if kappa > 0 else np.pi
    edges = np.linspace(0, end, 8193)
    log_peak = _log_vmf(edges[1:-1], dim, kappa).max()

    def integral(low: Float64, high: Float64) -> Float64:
        theta = (low + high)[..., None] / 2 + (high - low)[..., None] / 2 * nodes
        return np.asarray((np.exp(_log_vmf(theta, dim, kappa) - log_peak) * weights).sum(-1) * (high - low) / 2)

    panels = integral(edges[:-1], edges[1:])
    below, above = np.cumsum(panels) - panels, np.cumsum(panels[::-1])[::-1] - panels
    mass = panels.sum()
    w = np.linspace(-LAST_SCORE, LAST_SCORE, KNOTS)
    target = special.ndtr(-np.abs(w)) * mass
    low, high = np.zeros_like(w), np.full_like(w, end)
    # Bisection on the mass from the nearer end, so that both tails keep their precision; 60 steps exhaust float64.
    for _ in range(60):
        theta = (low + high) / 2
        panel = np.clip(np.searchsorted(edges, theta, side="right") - 1, 0, len(panels) - 1)
        left = below[panel] + integral(edges[panel], theta)
        right = above[panel] + integral(theta, edges[panel + 1])
        too_far = np.where(w < 0, left > target, right < target)
        low, high = np.where(too_far, low, theta), np.where(too_far, theta, high)
    theta = (low + high) / 2
    density = np.exp(_log_vmf(theta, dim, kappa) - log_peak) / mass
    return np.stack([theta, np.exp(-0.5 * w * w) / np.sqrt(2 * np.pi) / density])


def _log_vmf(theta: Float64, dim: int, kappa: float) -> Float64:
    from scipy import special

    return kappa * (np.cos(theta) - 1) + special.xlogy(dim - 2, np.sin(theta))
