"""What a dataset is: latent spaces, marginals, conditionals, the causal graph, raw → scene mapping."""

from ident3d.latents.draws import Draws, draw
from ident3d.latents.names import NAMES
from ident3d.latents.streams import SPLITS, noise_seed
from ident3d.latents.worlds import World

__all__ = ["NAMES", "SPLITS", "Draws", "World", "draw", "noise_seed"]
