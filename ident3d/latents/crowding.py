"""Whether draws crowd at the ends of a range, because a graph sets a mean outside it."""

from typing import Final

import numpy as np

from ident3d.latents.draws import draw
from ident3d.latents.exact.causal_draws import means
from ident3d.latents.exact.names import NAMES
from ident3d.latents.worlds import World

DRAWS: Final = 2000
# Of the range, at each of its ends.
NEAR: Final = 0.01


def crowded_latents(world: World) -> list[str]:
    """A sentence for each latent whose mean leaves its range, with the share of its draws near the range's ends."""
    model = world.mechanisms
    if model is None:
        return []
    ranges = {name: (node.low, node.high) for name, node in model.nodes.items()}
    found = []
    for name, node in model.nodes.items():
        reach = [mean.bounds(ranges) for part in node.components for mean in part.mean]
        # Intervals are wider than what is reached, so that they can only rule a latent out.
        if name in world.held or all(node.low <= low and high <= node.high for low, high in reach):
            continue
        raw, classes = draw(world, seed=0, split="test", start=0, count=DRAWS)
        assert classes is not None
        latents = {name: raw[:, k].astype(np.float64) for k, name in enumerate(NAMES)}
        centres = np.stack(means(model, node, latents, classes))
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
