"""Whether draws crowd at the ends of a range, because a graph sets a mean outside it."""

from typing import Final

import numpy as np

from ident3d.latents.draws import draw
from ident3d.latents.exact.causal_draws import means
from ident3d.latents.factors import Factors
from ident3d.latents.own_graph import chosen_values
from ident3d.latents.worlds import AnyWorld

DRAWS: Final = 2000
# Of the range, at each of its ends.
NEAR: Final = 0.01


def crowded_latents(world: AnyWorld) -> list[str]:
    """Return a sentence for each latent whose mean leaves its range: how many draws lie near the ends."""
    model = world.mechanisms
    if model is None:
        return []
    ranges = model.reach(world.held)
    found = []
    for name, node in model.nodes.items():
        # What is wrapped crowds nowhere.
        if node.periodic:
            continue
        reach = [mean.bounds(ranges) for part in node.components for mean in part.mean]
        # Intervals are wider than what is reached, so that they can only rule a latent out.
        if name in world.held or all(node.low <= low and high <= node.high for low, high in reach):
            continue
        raw, classes = draw(world, seed=0, split="test", start=0, count=DRAWS)
        latents = {name: raw[:, k].astype(np.float64) for k, name in enumerate(world.names)}
        if isinstance(world, Factors):
            latents |= chosen_values(model, world.factors, raw)
        centres = np.stack(means(model, node, latents, np.zeros(DRAWS, np.int8) if classes is None else classes))
        beyond = np.maximum(node.low - centres, centres - node.high).max(axis=0)
        width = NEAR * (node.high - node.low)
        near = (latents[name] < node.low + width) | (latents[name] > node.high - width)
        # Rounding leaves a sine a little above 1.
        if (share := float((beyond > 1e-9).mean())) > 0:
            found.append(
                f"The mean of {name} lies outside its range [{node.low:g}, {node.high:g}] in {100 * share:.0f} % of "
                f"images, by up to {beyond.max():.2g}: {100 * near.mean():.0f} % of its draws lie within {width:g} of "
                f"an end, where a uniform latent has {200 * NEAR:.0f} %."
            )
    return found
