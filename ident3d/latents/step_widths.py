"""How far a step in time should go: mean |z̃ - z| of the frames that a folder's settings ask for."""

import numpy as np

from ident3d.latents.distributions.differences import expected_abs_difference
from ident3d.latents.distributions.spaces import distance
from ident3d.latents.draws import words_each
from ident3d.latents.exact.arithmetic import Float64
from ident3d.latents.exact.streams import words
from ident3d.latents.factors import Factors
from ident3d.latents.next_frame import next_frame, ranges_of
from ident3d.latents.sequence_draws import further_words
from ident3d.latents.sequences import Sequences
from ident3d.latents.steps import ATTEMPTS
from ident3d.latents.worlds import AnyWorld

DRAWS = 100_000


def asked_widths(world: AnyWorld, sequences: Sequences, anchors: Float64) -> Float64:
    """Return E|z̃_k - z_k| for each latent (d,), around these frames (n, d).

    It follows from the conditional. Where single factors have rules, switch or take listed values, it is the mean over
    draws with other random numbers than any folder's.
    """
    conditional = sequences.conditional(world)
    listed = isinstance(world, Factors) and any(factor.values for factor in world.factors)
    if not (sequences.rules or listed) and (np.abs(ranges_of(world)) == 1).all():
        return expected_abs_difference(conditional, anchors)
    before = np.resize(anchors, (max(DRAWS, len(anchors)), world.n_raw)).astype(np.float32)
    # No image gets this far in its attempts.
    word = words(0, "train", 0, len(before), words_each(world), ATTEMPTS + 1)
    again = further_words(0, "train", np.arange(len(before)), words_each(world))
    after, _ = next_frame(world, sequences, conditional, before, word, again)
    return np.asarray(distance(world.space, after.astype(np.float64), before.astype(np.float64)).mean(axis=0))
