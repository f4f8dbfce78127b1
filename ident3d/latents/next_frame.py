"""The next frame: a step from the conditional, then factors with rules of their own, each as images store it."""

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.distributions.spaces import Box, Circle
from ident3d.latents.exact.arithmetic import Float64
from ident3d.latents.exact.families import BELOW_ONE
from ident3d.latents.exact.streams import uniform_float64
from ident3d.latents.factor import Factor, stored
from ident3d.latents.factors import Factors
from ident3d.latents.sequences import Sequences
from ident3d.latents.steps import Again, Words, around, step
from ident3d.latents.transition import Rule, width_of
from ident3d.latents.worlds import AnyWorld

Raw = NDArray[np.float32]


def next_frame(
    world: AnyWorld,
    sequences: Sequences,
    conditional: Conditional,
    before: Raw,
    word: Words,
    again: Again,
) -> tuple[Raw, NDArray[np.int64]]:
    """Return raw latents (n, d) of the frames after `before`, and what was intervened on: bit k for latent k (n,)."""
    ranges, last = ranges_of(world), before.astype(np.float64)
    raw, targets = step(conditional, last, word, ranges, again).astype(np.float32), np.zeros(len(before), np.int64)
    factors = world.factors if isinstance(world, Factors) else [None] * world.n_raw
    rules = sequences.rules.rules if sequences.rules else {}
    switching = sequences.switching(world)
    for k, factor in enumerate(factors):
        if factor and world.names[k] not in rules:
            u = uniform_float64(word[:, k])
            raw[:, k] = (
                switched(factor, before[:, k], sequences.switch, u) if k in switching else stored(factor, raw[:, k])
            )
    for name in sequences.rules.order() if sequences.rules else ():
        k, rule = world.names.index(name), rules[name]
        hit, u = _intervened(rule.intervened, uniform_float64(word[:, k]))
        low, high = ranges[k]
        factor = factors[k]
        if factor and factor.kind == "categorical":
            known = factor.to_raw(factor.listed)
            anew: Raw = known[np.minimum((u * len(known)).astype(np.int64), len(known) - 1)]
            probability = sequences.switch if rule.switch is None else rule.switch
            drawn = np.where(hit, anew, switched(factor, before[:, k], probability, u))
        else:
            centre, width = mean_of(rule, name, world, last, raw), rule.sigma or width_of(world, name, sequences.sigma)
            space = Circle(1) if factor and factor.kind == "periodic" else Box(1)
            moved = around(space, rule.cond or sequences.cond, sequences.p, centre, width, u, ranges[k])
            drawn = np.where(hit, low + (high - low) * u, moved).astype(np.float32)
        raw[:, k] = stored(factor, drawn) if factor else drawn
        targets |= hit.astype(np.int64) << k
    return raw, targets


def mean_of(rule: Rule, name: str, world: AnyWorld, last: Float64, raw: Raw) -> Float64:
    """Return the mean (n,) of a factor from the last frame (n, d) and from what is drawn of this one."""
    mean = np.full(len(last), rule.offset)
    of_last = {name: 1.0} if rule.last is None else rule.last
    # Added in the order of the latents: a record may have lost that of the file.
    for k, parent in enumerate(world.names):
        if parent in of_last:
            mean = mean + of_last[parent] * last[:, k]
        if parent in rule.now:
            mean = mean + rule.now[parent] * raw[:, k].astype(np.float64)
    return mean


def ranges_of(world: AnyWorld) -> Float64:
    """Return the lowest and highest raw value of each latent (d, 2); a graph may have narrower ranges."""
    model = world.mechanisms
    if model is None:
        return np.tile([-1.0, 1.0], (world.n_raw, 1))
    return np.array([(model.nodes[name].low, model.nodes[name].high) for name in world.names])


def switched(factor: Factor, before: Raw, probability: float, u: Float64) -> Raw:
    """Return with this probability one of the other values, all alike, else the old one."""
    known, old = factor.to_raw(factor.listed), factor.index(before)
    if len(known) == 1 or not probability:
        return known[old]
    # Below the probability u is uniform again, once divided by it.
    ahead = 1 + np.minimum((np.minimum(u / probability, 1.0) * (len(known) - 1)).astype(np.int64), len(known) - 2)
    return np.where(u < probability, known[(old + ahead) % len(known)], known[old])


def _intervened(probability: float, u: Float64) -> tuple[NDArray[np.bool_], Float64]:
    """Return which draws are interventions, and variates that are uniform again, whether they are or not."""
    if not probability:
        return np.zeros(len(u), np.bool_), u
    hit = u < probability
    rest = np.where(hit, u / probability, (u - probability) / max(1 - probability, 2.0**-53))
    return hit, np.clip(rest, 2.0**-53, BELOW_ONE)
