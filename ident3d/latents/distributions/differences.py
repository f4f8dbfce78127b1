"""How far apart the two halves of a pair should be: the distribution of |z̃_k - z_k| that a conditional asks for."""

from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from ident3d.latents.distributions.by_name import conditional as by_name
from ident3d.latents.distributions.by_name import uniforms
from ident3d.latents.distributions.conditionals import Conditional, Coordinatewise
from ident3d.latents.distributions.spaces import Box, Circle, Product, Space, Sphere, Unbounded, distance
from ident3d.latents.exact.arithmetic import Float64

# So many quantiles of a latent's anchors stand for all of them.
ANCHORS = 1000
DRAWS = 200_000


def difference_cdf(conditional: Conditional, differences: ArrayLike, anchors: ArrayLike | None = None) -> Float64:
    """Return P(|z̃_k - z_k| ≤ δ) over the anchors, (len(differences), dim); by default z is uniform on its space.

    Box: E_z[(F(min(δ, high - z)) + F(min(δ, z - low))) / (F(high - z) + F(z - low))] with F(x) the mass of (-x, x).
    Unbounded: F(δ). On circles, the sphere and products it is counted on draws.
    """
    delta = np.asarray(differences, np.float64)
    if _on_a_line(conditional):
        return np.stack([_line_cdf(conditional, k, delta, anchors) for k in range(conditional.space.dim)], axis=1)
    drawn = np.sort(_drawn(conditional, anchors), axis=0)
    return np.stack([np.searchsorted(column, delta, side="right") / len(column) for column in drawn.T], axis=1)


def expected_abs_difference(conditional: Conditional, anchors: ArrayLike | None = None) -> Float64:
    """Return E|z̃_k - z_k| = ∫ P(|z̃_k - z_k| > δ) dδ for every dimension k."""
    if not _on_a_line(conditional):
        return np.asarray(_drawn(conditional, anchors).mean(axis=0))
    means = []
    for k in range(conditional.space.dim):
        grid = _grid(conditional, k)
        beyond = 1 - _line_cdf(conditional, k, grid, anchors)
        means.append(float(((beyond[1:] + beyond[:-1]) / 2 * np.diff(grid)).sum()))
    return np.array(means)


def _on_a_line(conditional: Conditional) -> TypeGuard[Coordinatewise]:
    return isinstance(conditional, Coordinatewise) and not isinstance(conditional.space, Circle | Sphere)


def _line_cdf(conditional: Coordinatewise, k: int, delta: Float64, anchors: ArrayLike | None) -> Float64:
    space, scale, mass = conditional.space, conditional.scale[k], conditional.family.mass
    # A coordinate that stays has no difference: its distribution is a step at 0.
    if scale == 0:
        return np.where(delta >= 0, 1.0, 0.0)
    if not isinstance(space, Box):
        return np.asarray(mass(delta / scale))
    middle = (np.arange(ANCHORS) + 0.5) / ANCHORS
    z = space.low + (space.high - space.low) * middle
    if anchors is not None:
        z = np.quantile(np.asarray(anchors, np.float64)[:, k], middle)
    # An anchor near a bound is cut off on one side, so each has two reaches of its own.
    up, down = (space.high - z) / scale, (z - space.low) / scale
    step = delta[:, None] / scale
    inside: Float64 = (mass(np.minimum(step, up)) + mass(np.minimum(step, down))) / (mass(up) + mass(down))
    return np.asarray(inside.mean(axis=1))


def _grid(conditional: Coordinatewise, k: int, points: int = 2001) -> Float64:
    """Return differences from 0 to the largest that is worth counting, finer near 0."""
    # Beyond this a difference has probability 1e-12: cutting there changes no mean that is printed.
    reach = float(conditional.family.quantile(np.array(1 - 1e-12))) * conditional.scale[k]
    if isinstance(conditional.space, Box):
        reach = min(reach, conditional.space.high - conditional.space.low)
    return np.asarray(np.linspace(0, 1, points) ** 2 * reach)


def _drawn(conditional: Conditional, anchors: ArrayLike | None) -> Float64:
    uniform = uniforms(np.random.default_rng(0))
    z = _uniform_points(conditional.space) if anchors is None else np.asarray(anchors, np.float64)
    z = np.resize(z, (max(DRAWS, len(z)), z.shape[1]))
    return distance(conditional.space, conditional.sample(z, uniform), z)


def _uniform_points(space: Space) -> Float64:
    """Return anchors uniform on a space; an unbounded factor's differences are the same everywhere."""
    if isinstance(space, Product):
        return np.concatenate([_uniform_points(part) for part in space.parts], axis=1)
    if isinstance(space, Unbounded):
        return np.zeros((DRAWS, space.dim))
    # A seed for each shape: the factors of a product must not share their draws.
    draw = uniforms(np.random.default_rng([1, space.dim]))
    return np.asarray(by_name("uniform", space).sample(np.zeros((DRAWS, space.dim)), draw))
