"""Which factors of a grid change from anchor to positive, and to which values, many pairs at a time."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.loaders.pairs.search import Flags, Indices
from ident3d.loaders.pairs.variates import ANCHOR, NEGATIVE, POSITIVE

# Of lap. Drawn for each pair, it is uniform between the two others.
RATE: Final = 1.0
DRAWN_RATES: Final = (1.0, 10.0)
# Columns of ANCHOR: what is drawn once a pair. POSITIVE has a column for each factor's value, and NEGATIVE, as these
# pairs have no negatives, one for its place in the order in which factors are chosen.
IMAGE, RATE_DRAWN, WHICH, FORCED = range(4)
# Where nothing is forced, that column decides between one factor and several.
COIN: Final = FORCED

Floats: TypeAlias = NDArray[np.float64]


def draw_uni(old: Indices, sizes: Indices, variates: Floats) -> Indices:
    """Return new values (m, D): k ~ uniform {1, …, D-1} factors of the D take one of their other values, all alike.

    `old` (m, D) numbers the anchors' values from 0, `sizes` (D,) are the numbers of values, at least 2.
    """
    d = len(sizes)
    other = (variates[:, POSITIVE, :d] * (sizes - 1)).astype(np.int64)
    return np.where(choose_factors(number_of_factors(d, variates), d, variates), other + (other >= old), old)


def draw_redraw(old: Indices, sizes: Indices, variates: Floats) -> Indices:
    """Return new values (m, D): one factor or k ~ uniform {1, …, D-1} of the D, by a coin, take any value, all alike.

    The old value is one of them, so that nothing may have changed.
    """
    d = len(sizes)
    count = np.where(variates[:, ANCHOR, COIN] < 0.5, 1, number_of_factors(d, variates))
    new = (variates[:, POSITIVE, :d] * sizes).astype(np.int64)
    return np.where(choose_factors(count, d, variates), new, old)


def number_of_factors(d: int, variates: Floats) -> Indices:
    """Return k ~ uniform {1, …, D-1} (m,)."""
    return np.asarray(1 + (variates[:, ANCHOR, WHICH] * (d - 1)).astype(np.int64))


def choose_factors(count: Indices, d: int, variates: Floats) -> Flags:
    """Return which of D factors are chosen (m, D): `count` (m,) of them, at random."""
    # Ranks of random numbers are a random order of the factors, the first of which are chosen.
    return np.asarray(variates[:, NEGATIVE, :d].argsort(axis=1).argsort(axis=1) < count[:, None])


def draw_lap(
    old: Indices, sizes: Indices, ordered: Flags, rate: float | None, variates: Floats, *, rejecting: bool = False
) -> Indices:
    """Return new values (m, D) ~ p(i) ∝ exp(-|i - i₀| rate / ln n), factor by factor, at least one of them another.

    Factors that are not `ordered` (D,) keep their value. If all keep theirs, one that is ordered is forced to another,
    or, `rejecting`, all are drawn again. A rate of None is drawn for each pair.
    """
    drawn = DRAWN_RATES[0] + (DRAWN_RATES[1] - DRAWN_RATES[0]) * variates[:, ANCHOR, RATE_DRAWN, None]
    # Values have the weights q^|i - i₀|. Those below i₀, and those above it, add up to a geometric sum.
    log_q = -(drawn if rate is None else rate) / np.log(sizes)
    q, q_less_1 = np.exp(log_q), np.expm1(log_q)
    below, above = (q * np.expm1(steps * log_q) / q_less_1 for steps in (old, sizes - 1 - old))
    log_stay, u = -np.log1p(below + above) * ordered, variates[:, POSITIVE, : len(sizes)].copy()
    # A factor stays if its u is less than `stay`.
    if rejecting:
        stay = stay_until_one_changes(log_stay, u)
    else:
        stay, which = np.exp(log_stay), np.flatnonzero(ordered)
        rows = np.flatnonzero((u < stay).all(axis=1))
        forced = which[(variates[rows, ANCHOR, WHICH] * len(which)).astype(np.int64)]
        stay[rows, forced], u[rows, forced] = 0, variates[rows, ANCHOR, FORCED]
    # Above `stay`, u is uniform again: it falls among the weights below i₀, or among those above it.
    change = u >= stay
    place = np.where(change, (u - stay) / np.where(change, 1 - stay, 1), 0) * (below + above)
    down = (place < below) | (above == 0)
    place = np.where(down, place, place - below)
    # The least step s with q + q² + … + q^s > place. Rounding may lead one too far at the end of the list.
    step = 1 + np.floor(np.log1p(np.maximum(place * q_less_1 / q, -1 + 1e-15)) / log_q).astype(np.int64)
    new = np.where(down, np.maximum(old - step, 0), np.minimum(old + step, sizes - 1))
    return np.where(change, new, old)


def stay_until_one_changes(log_stay: Floats, u: Floats) -> Floats:
    """Return P(factor stays), given the earlier factors and that one of all changes; it stays if u is less.

    That is what drawing again until something has changed comes to, without an unknown number of draws.
    """
    free = np.exp(log_stay)
    # The chance that one of the factors from this one on changes, and from the next one on.
    here = -np.expm1(np.cumsum(log_stay[:, ::-1], axis=1)[:, ::-1])
    after = np.column_stack([here[:, 1:], np.zeros(len(here))])
    stay: Floats = free * np.divide(after, here, out=np.ones_like(here), where=here > 0)
    changed = np.zeros(len(u), np.bool_)
    for k in range(u.shape[1]):
        stay[changed, k] = free[changed, k]
        changed |= u[:, k] >= stay[:, k]
    return stay
