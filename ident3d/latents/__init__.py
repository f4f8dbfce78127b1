"""What a dataset is: latent spaces, marginals, conditionals, the causal graph, raw → scene mapping."""

from ident3d.latents.distributions.by_name import conditional, marginal, uniforms
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.latents.distributions.spaces import Box, Product, Space, Sphere, Unbounded
from ident3d.latents.draws import Draws, draw
from ident3d.latents.exact.causal import CausalModel, load_model, published_model
from ident3d.latents.exact.names import NAMES
from ident3d.latents.exact.streams import SPLITS, noise_seed
from ident3d.latents.worlds import World

__all__ = [
    "NAMES",
    "SPLITS",
    "Box",
    "CausalModel",
    "Conditional",
    "Draws",
    "Product",
    "Space",
    "Sphere",
    "Unbounded",
    "World",
    "conditional",
    "draw",
    "load_model",
    "marginal",
    "noise_seed",
    "published_model",
    "uniforms",
]
