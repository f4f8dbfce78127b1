"""How well the pictures determine the latents at all: the R² of the best possible reader, E[z | picture].

Two things are lost on the way into a picture, and both follow from the world's settings:

* The published hue rule. It calls HSV → RGB with the negative hue as it is and lets negative channels become 0, so
  that on some stretches of negative hue the colour does not change. With a = 6 |hue in turns| and saturation s it is
  (1, max(0, 1 - s(1 + a)), 1 - s) up to a = 1, (1, 1 - s, 1 + s(a - 1)) up to 2, and
  (max(0, 1 - s(a - 1)), 1 - s, 1) up to 3: constant for a from 1/s - 1 to 1 and again from 1 + 1/s to 3.
* Euler angles. (φ, θ, ψ) and (φ + π, π - θ, ψ + π) are one pose, which matters once the angle range exceeds π/2.

Then R² = 1 - E[Var(z | picture)] / Var(z). Left out is θ held at ±π/2, where φ and ψ turn about one axis. In the causal
world the reader of a hue sees its colour and the class but not its parents, and angles count as uniform.
"""

import math
from typing import Final

import numpy as np

from ident3d.latents.draws import draw
from ident3d.latents.exact.arithmetic import Float64
from ident3d.latents.exact.names import CLASSES, NAMES
from ident3d.latents.worlds import World

SATURATIONS: Final = {"object_hue": 1.0, "spotlight_hue": 0.8, "ground_hue": 0.6}


def constant_stretches(saturation: float, hue_range: float) -> list[tuple[float, float]]:
    """Return the raw intervals (low, high) over which the published rule gives one colour; h = hue_range · raw."""
    raw_per_a = math.pi / (3 * hue_range)
    starts_ends = ((1 / saturation - 1, 1.0), (1 + 1 / saturation, 3.0))
    within = ((low * raw_per_a, min(1.0, high * raw_per_a)) for low, high in starts_ends)
    return [(-high, -low) for low, high in within if low < high]


def attainable_r2(world: World) -> dict[str, float | None]:
    """Return the attainable R² of each raw latent by name; None for one that is held fixed."""
    r2: dict[str, float | None] = dict.fromkeys(world.names, 1.0)
    if world.periodic:
        r2 |= {f"sphere_{k}": value for k, value in enumerate(_sphere_r2())}
    else:
        r2 |= _euler_r2(world.angle_range)
        if any(name.startswith("rotation") for name in world.held):
            # The twin pose would need the fixed angle to move, so each pose has one picture.
            r2 |= dict.fromkeys(_euler_r2(world.angle_range), 1.0)
        if world.hues == "published":
            r2 |= _drawn_hue_r2(world) if world.causal else _uniform_hue_r2(world.hue_range)
    return r2 | dict.fromkeys(world.held)


def _uniform_hue_r2(hue_range: float) -> dict[str, float]:
    """Return 1 - Σ L³/8: z ~ U(-1, 1) has variance 1/3; a stretch of length L, of probability L/2, loses L²/12."""
    stretches = {name: constant_stretches(saturation, hue_range) for name, saturation in SATURATIONS.items()}
    return {name: 1 - sum((high - low) ** 3 for low, high in within) / 8 for name, within in stretches.items()}


def _drawn_hue_r2(world: World, draws: int = 140_000) -> dict[str, float]:
    """Return the same, the lost variance counted on draws of the causal world by class and stretch; four digits."""
    raw, classes = draw(world, seed=0, split="test", start=0, count=draws)
    r2 = {}
    for name, saturation in SATURATIONS.items():
        hue, lost = raw[:, NAMES.index(name)].astype(np.float64), 0.0
        for low, high in constant_stretches(saturation, world.hue_range):
            for code in range(len(CLASSES)):
                alike = hue[(classes == code) & (low < hue) & (hue < high)]
                lost += len(alike) * float(alike.var()) if len(alike) else 0.0
        r2[name] = round(1 - lost / (len(hue) * float(hue.var())), 4) if hue.var() > 0 else 1.0
    return r2


def _euler_r2(angle_range: float) -> dict[str, float]:
    """Return R² for angles uniform in ±a: all three of a pose's twin lie in range with probability q³, q = (2a - π)/a.

    Given such a pair, φ is one of two values π apart, and θ one of two values symmetric about ±π/2.
    """
    q = max(0.0, (2 * angle_range - math.pi) / angle_range)
    variance = angle_range**2 / 3
    turned = 1 - q**3 * (math.pi / 2) ** 2 / variance
    mirrored = 1 - q**3 * ((angle_range - math.pi / 2) ** 2 / 3) / variance
    return {"rotation_phi": turned, "rotation_theta": mirrored, "rotation_psi": turned}


def _sphere_r2(nodes: int = 64) -> list[float]:
    """Return R² for points uniform on S⁷ with polar angles a₁, a₂, a₃ = φ/2, θ/2, ψ/2.

    The twin has a₁ ± π/2, π/2 - a₂ (mod π), a₃ ± π/2.
    The reader's answer is (p x + p' x')/(p + p'), p ∝ sin⁶a₁ sin⁵a₂ sin⁴a₃, so the loss is E[(p'/(p + p'))² (x - x')²],
    integrated by the midpoint rule; every coordinate has variance 1/8.
    """
    a = (np.arange(nodes) + 0.5) * (math.pi / nodes)
    a1, a2, a3 = np.meshgrid(a, a, a, indexing="ij")

    def coordinates(sin: list[Float64], cos: list[Float64]) -> list[Float64]:
        return [cos[0], sin[0] * cos[1], sin[0] * sin[1] * cos[2], sin[0] * sin[1] * sin[2]]

    sin, cos = [np.sin(v) for v in (a1, a2, a3)], [np.cos(v) for v in (a1, a2, a3)]
    # Sin and cos of the twin's half angles, all of them in [0, π].
    turned = [np.where(c >= 0, 1, -1) for c in cos]
    twin_sin = [np.abs(c) for c in cos]
    twin_cos = [-s * t for s, t in zip(sin, turned, strict=True)]
    twin_cos[1] = sin[1] * turned[1]
    p = sin[0] ** 6 * sin[1] ** 5 * sin[2] ** 4
    twin_p = twin_sin[0] ** 6 * twin_sin[1] ** 5 * twin_sin[2] ** 4
    weight = p * (twin_p / (p + twin_p)) ** 2 / p.sum()
    pairs = zip(coordinates(sin, cos), coordinates(twin_sin, twin_cos), strict=True)
    losses = [float((weight * (x - twin) ** 2).sum()) for x, twin in pairs]
    # The last five coordinates share what is left of the length: each has a fifth of its square on average.
    return [1 - 8 * loss for loss in losses[:3]] + [1 - 8 * losses[3] / 5] * 5
