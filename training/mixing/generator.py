"""Mixing g: x = g(z), an invertible function of the latents that stands for the world between them and the data.

The papers' construction: square linear layers without bias whose columns have length 1, leaky ReLU of slope 0.2
between them. A layer's weights are drawn uniformly from (-1, 1), again and again, until it is as well-conditioned as
the best of 25,000 draws. So the inverse keeps its digits, and the minimum of a loss can be estimated at f = g⁻¹.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from ident3d.errors import UserError
from ident3d.latents.exact.arithmetic import Float64
from ident3d.training.mixing.decoded import decoder_named
from ident3d.training.mixing.settings import DECODER
from ident3d.training.own.own_code import own_module

SLOPE = 0.2
LAYERS = 3
# The smallest condition number of so many draws is the threshold, as in the public code.
DRAWS = 25_000
# After so many draws above the threshold the best of them is taken, so that drawing ends.
MOST_DRAWS = 250_000
# Each layer takes seconds to draw.
MOST_LAYERS = 32
# Condition numbers of so many larger matrices take an hour.
MOST_LATENTS = 128


class Mixing(nn.Module):
    """x = φ(… φ(z W_1) …) W_L, φ the leaky ReLU of slope 0.2, each W_l (d, d) with columns of length 1.

    z is a row, so it is each output's weights that have length 1. In the public code, where weights stand left of a
    column z, it is each input's; condition numbers and the identity baseline's scores are the same.
    The weights are buffers: they belong to the data and are never trained.
    """

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, z: Tensor) -> Tensor:
        """Return observations (..., d) of latents (..., d)."""
        first, *others = self.weights.to(z.dtype)
        x: Tensor = z @ first
        for weight in others:
            x = leaky_relu(x, SLOPE) @ weight
        return x

    def inverse(self, x: Tensor) -> Tensor:
        """Return z = g⁻¹(x), computed in float64."""
        # Each solution multiplies rounding by a condition number. In float64 all digits of a float32 are left.
        *others, last = self.weights.double().flip(0).unbind()
        z = x.double()
        for weight in others:
            z = leaky_relu(torch.linalg.solve(weight, z, left=False), 1 / SLOPE)
        latents: Tensor = torch.linalg.solve(last, z, left=False)
        return latents.to(x.dtype)


def new_mixing(dim: int, *, layers: int = LAYERS, seed: int = 0) -> Mixing:
    """Return the papers' mixing of `dim` latents, the same for the same numbers."""
    if dim < 2:
        raise UserError(f"There is nothing to mix in {dim} dimension{'s' * (dim != 1)}; take at least 2.")
    if dim > MOST_LATENTS:
        raise UserError(
            f"The papers' mixing is drawn for at most {MOST_LATENTS} latents, not {dim}; give your own as "
            "package.module:name."
        )
    if not 1 <= layers <= MOST_LAYERS:
        raise UserError(f"A mixing has at least 1 layer and at most {MOST_LAYERS}, not {layers}.")
    # The threshold has a generator of its own: it belongs to the dimension, and every seed shares it.
    generator = np.random.default_rng([seed, dim])
    threshold = best_condition(dim)
    weights = [draw_well_conditioned(dim, threshold, generator) for _ in range(layers)]
    return Mixing(torch.tensor(np.stack(weights)).float())


@lru_cache
def best_condition(dim: int) -> float:
    """Return the smallest condition number among 25,000 draws."""
    generator = np.random.default_rng(dim)
    return min(float(np.linalg.cond(drawn).min()) for drawn in draw_blocks(DRAWS, dim, generator))


def draw_well_conditioned(dim: int, threshold: float, generator: np.random.Generator) -> Float64:
    """Return the first draw whose condition number is at most the threshold, or else the best of many."""
    best: Float64 = draw_columns(1, dim, generator)[0]
    least = np.inf
    for drawn in draw_blocks(MOST_DRAWS, dim, generator):
        condition = np.linalg.cond(drawn)
        if (enough := condition <= threshold).any():
            best = drawn[enough.argmax()]
            break
        if condition.min() < least:
            best, least = drawn[condition.argmin()], condition.min()
    return best


def draw_blocks(count: int, dim: int, generator: np.random.Generator) -> Iterator[Float64]:
    """Yield `count` matrices, as many at once as take 64 MB."""
    at_once = min(5_000, 2**23 // dim**2)
    for first in range(0, count, at_once):
        yield draw_columns(min(at_once, count - first), dim, generator)


def draw_columns(count: int, dim: int, generator: np.random.Generator) -> Float64:
    """Return `count` matrices (dim, dim), uniform in (-1, 1), each column divided by its length."""
    drawn = generator.uniform(-1, 1, (count, dim, dim))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def mixing_named(name: str, dim: int, *, seed: int = 0) -> nn.Module:
    """Return a mixing by name: "papers" (three layers), "papers:5" (five), "decoder:RUN", or a user's own.

    decoder:RUN is the decoder of an autoencoder's run, and a user's own is named package.module:name.

    A user's own is an nn.Module, or a class or function that is called with the number of latents and makes one. It
    maps (B, d) to (B, any). The global minimum is estimated from the latents, so it needs no inverse.
    """
    kind, _, layers = name.partition(":")
    if name.startswith(DECODER):
        return decoder_named(name, dim).eval().requires_grad_(False)
    if kind == "papers" and (layers.isdecimal() or name == kind):
        return new_mixing(dim, layers=int(layers or LAYERS), seed=seed)
    if ":" not in name:
        raise UserError(
            f"There is no mixing {name!r}; take papers, papers:5 for five layers, decoder:RUN, or package.module:name."
        )
    # A user's own mixing draws its weights from the global generator. It is data and is never trained.
    torch.manual_seed(seed)
    made = own_module("mixing", name, latents=dim)
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    return made.eval()


class Whitening(nn.Module):
    """(x - m) W with W = V D^(-1/2) of the covariance V D Vᵀ: observations of mean 0 and covariance 1, or x itself.

    Mixed latents vary little around a mean far from 0, which slows a perceptron down. As an invertible linear map of
    the data it changes nothing of what can be identified.
    """

    mean: Tensor
    weight: Tensor

    def __init__(self, some: Tensor | None, width: int) -> None:
        super().__init__()
        self.wanted = some is not None
        mean, weight = torch.zeros(width), torch.eye(width)
        if some is not None:
            # On the CPU, because not every GPU has float64.
            some = some.cpu().double()
            values, vectors = torch.linalg.eigh(some.T.cov())
            # A direction in which the data do not vary is not blown up: its variance counts as a tiny share of the
            # largest.
            mean, weight = some.mean(0).float(), (vectors / values.clamp_min(1e-12 * values[-1]).sqrt()).float()
        self.register_buffer("mean", mean)
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) @ self.weight if self.wanted else x
