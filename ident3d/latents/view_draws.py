"""Drawing the views of one z: what is shared stays, what is private is drawn anew."""

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.distributions.spaces import distance
from ident3d.latents.draws import words_each
from ident3d.latents.environments import Setting, draw_setting
from ident3d.latents.exact.arithmetic import Float64
from ident3d.latents.exact.causal_draws import sample
from ident3d.latents.exact.streams import words
from ident3d.latents.factors import Factors
from ident3d.latents.next_frame import next_frame
from ident3d.latents.own_graph import follow
from ident3d.latents.steps import ATTEMPTS, Again, Words
from ident3d.latents.views import Views
from ident3d.latents.worlds import AnyWorld

Raw = NDArray[np.float32]
DRAWS = 100_000


def later_view(
    setting: Setting,
    views: Views,
    first: Raw,
    classes: NDArray[np.int8],
    word: Words,
    index: NDArray[np.int64],
    again: Again,
) -> Raw:
    """Return raw latents (n, d) of one further view of instances whose view 0 is given, from its own words (n, ...)."""
    world = setting.world
    # In an environment more may be held than in the world.
    moving = views.private_names(world) - set(world.held)
    private = [k for k, name in enumerate(world.names) if name in moving]
    around, drawn, raw = views.around(world), private, first.copy()
    if around:
        step, conditional = around
        moved, _ = next_frame(world, step, conditional, first, word, again)
        drawn = [k for k in private if isinstance(world, Factors) and k in world.categorical]
        kept = [k for k in private if k not in drawn]
        raw[:, kept] = moved[:, kept]
    if drawn:
        raw[:, drawn] = _from_marginal(setting, raw, drawn, classes, word, index)[:, drawn]
    return raw


def _from_marginal(
    setting: Setting, raw: Raw, drawn: list[int], classes: NDArray[np.int8], word: Words, index: NDArray[np.int64]
) -> Raw:
    """Return raw latents (n, d) of which the columns `drawn` are drawn, in a graph given what the others are."""
    world = setting.world
    if world.mechanisms is None:
        return draw_setting(setting, word, index).raw
    given: dict[str, float | Raw] = {**world.held}
    given |= {name: raw[:, k] for k, name in enumerate(world.names) if k not in drawn}
    if isinstance(world, Factors):
        return follow(world.mechanisms, world.factors, word, given)
    return sample(world.mechanisms, word, index, world.drawn_classes, given, classes)[0]


def asked_changes(world: AnyWorld, views: Views) -> Float64:
    """Return the mean |z̃_k - z_k| (d,) over pairs of different views, from draws that no folder has."""
    each, length = words_each(world), views.number
    count = max(1, DRAWS // length)
    # No image gets this far in its attempts.
    word = words(0, "train", 0, count * length, each, ATTEMPTS + 1).reshape(count, length, each)
    index, setting = np.arange(count), Setting(world, {})
    raw, classes = draw_setting(setting, word[:, 0], index)
    classes = np.zeros(count, np.int8) if classes is None else classes
    seen = [raw.astype(np.float64)]
    for v in range(1, length):

        def again(rows: NDArray[np.int64], attempt: int, v: int = v) -> Words:
            drawn = [words(0, "train", int(row) * length + v, 1, each, ATTEMPTS + 1 + attempt) for row in rows]
            return np.concatenate(drawn)

        seen.append(later_view(setting, views, raw, classes, word[:, v], index, again).astype(np.float64))
    pairs = [(a, b) for a in range(length) for b in range(a)]
    return np.asarray(np.mean([distance(world.space, seen[a], seen[b]).mean(axis=0) for a, b in pairs], axis=0))
