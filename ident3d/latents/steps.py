"""One step in time: a draw from a conditional around the frame before, to the same last bit on every machine.

The conditionals are those of pairs, with their names and widths. What they draw by the maths library for a training is
drawn by exact arithmetic here, because it is stored.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.distributions import conditionals as c
from ident3d.latents.distributions.families import GeneralizedNormal, Laplace, Normal, Window
from ident3d.latents.distributions.spaces import Box, Circle, Sphere, Unbounded
from ident3d.latents.exact.arithmetic import Float64, normal_quantile, sin_cos
from ident3d.latents.exact.families import POWERS, angle_table, noise, truncated, unit, wrapped
from ident3d.latents.exact.streams import uniform_float64

Words: TypeAlias = NDArray[np.uint64]
# Of these rows, the words of a further attempt.
Again: TypeAlias = Callable[[NDArray[np.int64], int], Words]
FAMILY: Final = {Normal: "normal", Laplace: "laplace", GeneralizedNormal: "gennorm", Window: "uniform"}
# Narrower or wider than this float64 does not tell two draws apart.
WIDTHS: Final = (1e-6, 1e6)
LARGEST_KAPPA: Final = 1e6
ATTEMPTS: Final = 10_000


def check_drawable(conditional: c.Conditional) -> None:
    """Raise UserError if frames cannot be drawn from the conditional, although pairs can."""
    match conditional:
        case c.ProductConditional(parts=parts):
            for part in parts:
                check_drawable(part)
        case c.Coordinatewise(family=family, scale=scale):
            check_widths("sigma", [width for width in scale if width])
            if isinstance(family, GeneralizedNormal):
                check_power(family.p)
        case c.VonMisesFisher(kappa=kappa) if kappa > LARGEST_KAPPA:
            raise UserError(f"Frames are drawn with a kappa of at most {LARGEST_KAPPA:g}, not {kappa:g}.")
        case c.RejectedNormal(precision=precision):
            check_widths("1/√Λ", [precision_k**-0.5 for precision_k in precision])


def check_power(p: float) -> None:
    """Raise UserError for a power of gennorm that no table describes."""
    if not POWERS[0] <= p <= POWERS[1]:
        raise UserError(f"Frames are drawn with a power p of gennorm from {POWERS[0]:g} to {POWERS[1]:g}, not {p:g}.")


def check_widths(name: str, widths: list[float]) -> None:
    """Raise UserError for a width with which nothing can be drawn."""
    for width in widths:
        if not WIDTHS[0] <= width <= WIDTHS[1]:
            raise UserError(f"Frames are drawn with a {name} from {WIDTHS[0]:g} to {WIDTHS[1]:g}, not {width:g}.")


def step(conditional: c.Conditional, z: Float64, word: Words, ranges: Float64, again: Again) -> Float64:
    """Return the next frame's raw latents (n, d) after z (n, d), from their random words (n, d or more).

    `ranges` (d, 2) is what latents of a box are truncated to; `again` gives further words where draws are rejected.
    """
    match conditional:
        case c.Stay():
            return z
        case c.ProductConditional(space=space, parts=parts):
            stepped = []
            for part, at in zip(parts, space.slices, strict=True):
                stepped.append(step(part, z[:, at], word[:, at], ranges[at], _columns(again, at)))
            return np.concatenate(stepped, axis=1)
        case c.VonMisesFisher(space=space, kappa=kappa):
            return _around_mean(space, kappa, z, uniform_float64(word[:, : space.dim]))
        case c.RejectedNormal():
            return _rejecting(conditional, z, word, again)
        case c.Uniform(space=space):
            u = uniform_float64(word[:, : space.dim])
            if isinstance(space, Sphere):
                return unit(normal_quantile(u))
            return np.asarray(ranges[:, 0] + (ranges[:, 1] - ranges[:, 0]) * u)
        case c.Coordinatewise():
            return _coordinatewise(conditional, z, uniform_float64(word[:, : conditional.space.dim]), ranges)
    raise AssertionError(conditional)


def _columns(again: Again, at: slice) -> Again:
    return lambda rows, attempt: again(rows, attempt)[:, at]


def _coordinatewise(conditional: c.Coordinatewise, z: Float64, u: Float64, ranges: Float64) -> Float64:
    family, space = conditional.family, conditional.space
    name = FAMILY[type(family)]
    p = family.p if isinstance(family, GeneralizedNormal) else 0.0
    out, scale = z.copy(), np.array(conditional.scale)
    # A scale of 0 marks a coordinate that stays. The others are drawn at once: a long sequence has one row a frame.
    moves = scale > 0
    out[:, moves] = around(space, name, p, z[:, moves], scale[moves], u[:, moves], ranges[moves])
    return unit(out) if isinstance(space, Sphere) else out


def around(
    space: Box | Circle | Sphere | Unbounded,
    family: str,
    p: float,
    centre: Float64,
    scale: float | Float64,
    u: Float64,
    ranges: Float64,
) -> Float64:
    """Return draws (n,) from a family around the centre: truncated to the range on a box, wrapped on a circle.

    Of several coordinates, draws (n, d), with a scale (d,) and ranges (d, 2).
    """
    if isinstance(space, Box):
        return truncated(family, p, ranges[..., 0], ranges[..., 1], centre, np.asarray(scale), u)
    moved = centre + scale * noise(family, p, u)
    return wrapped(moved) if isinstance(space, Circle) else moved


def _around_mean(space: Sphere, kappa: float, z: Float64, u: Float64) -> Float64:
    """Return draws from exp(κ z̃ᵀz), as `VonMisesFisher` says: an angle to z, and a direction around it."""
    table = angle_table(space.dim, kappa)
    sine, cosine = sin_cos(table.quantile(u[:, 0] * table.below[-1]))
    sign = np.where(z[:, :1] < 0, -1.0, 1.0)
    point = np.concatenate([-sign * cosine[:, None], sine[:, None] * unit(normal_quantile(u[:, 1:]))], axis=1)
    # A reflection carries the first axis to ∓z.
    v = np.concatenate([1 + np.abs(z[:, :1]), sign * z[:, 1:]], axis=1)
    along = np.zeros(len(z))
    for a, b in zip(v.T, point.T, strict=True):
        along = along + a * b
    # Latents are stored in float32, so that z has length 1 up to 1e-7.
    return unit(point - v * (along / v[:, 0])[:, None])


def _rejecting(conditional: c.RejectedNormal, z: Float64, word: Words, again: Again) -> Float64:
    """Return for each row the first proposal near the sphere, projected onto it."""
    scale = 1 / np.sqrt(np.array(conditional.precision))
    out, pending = np.empty_like(z), np.arange(len(z))
    for attempt in range(ATTEMPTS):
        given = word if not attempt else again(pending, attempt)
        x = z[pending] + scale * normal_quantile(uniform_float64(given[:, : z.shape[1]]))
        square = np.zeros(len(x))
        for column in x.T:
            square = square + column * column
        kept = np.abs(np.sqrt(square) - 1) < conditional.threshold
        out[pending[kept]] = unit(x[kept])
        pending = pending[~kept]
        if not len(pending):
            return out
    raise UserError(f"Hardly any draw comes within {conditional.threshold:g} of the sphere: raise Λ.")
