"""Encoders of mixed latents: multilayer perceptrons, the papers' or of any widths, and an output space behind them."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.encoders.choice import hidden_widths
from ident3d.training.encoders.output_spaces import OutputSpace
from ident3d.training.loop.dtype import wide
from ident3d.training.own.own_code import own_module
from ident3d.training.own.own_object import own_name


class Perceptron(nn.Module):
    """f(x) = space(W_L φ(… φ(W_1 x + b_1)) + b_L), φ the leaky ReLU: observations (N, any) → codes (N, d).

    Under autocast the layers compute in 16 bits, the last and the space in float32.
    """

    def __init__(self, layers: nn.Module, last: nn.Module, space: OutputSpace) -> None:
        super().__init__()
        self.layers, self.last, self.space = layers, last, space

    def forward(self, x: Tensor) -> Tensor:
        features = self.layers(x)
        # In 16 bits, codes would be rounded before the loss compares them.
        with torch.autocast(x.device.type, enabled=False):
            raw = self.last(wide(features))
        if raw.shape != (len(x), self.space.dim):
            raise UserError(
                f"The encoder gives codes of shape {tuple(raw.shape)} where {(len(x), self.space.dim)} are needed."
            )
        codes: Tensor = self.space(raw)
        return codes


def perceptron(name: str | Callable[..., Any], inputs: int, space: OutputSpace) -> Perceptron:
    """Return an encoder by name: "papers", hidden widths such as "256x4" or "100,500x4,100", or a user's own.

    The papers' widths are 10d, four times 50d, 10d. Your own, itself or as "package.module:name", is called with the
    numbers of inputs and outputs, or is an nn.Module that has as many.

    Args:
        name: The hidden layers, or your own.
        inputs: The length of an observation.
        space: The output space, of d dimensions.

    Returns:
        A `Perceptron`: observations (N, inputs) → codes (N, d).

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> f = encoders.perceptron("100,500x4,100", 10, encoders.Unbounded(10))
        >>> f(torch.zeros(3, 10)).shape
        torch.Size([3, 10])
    """
    name = own_name(name)
    # A user's own perceptron gives d codes itself, so no last layer follows it.
    if ":" in name:
        return Perceptron(own_module("encoder", name, inputs=inputs, outputs=space.dim), nn.Identity(), space)
    sizes = [inputs, *hidden_widths(name, inputs)]
    return Perceptron(nn.Sequential(*hidden_layers(sizes)), nn.Linear(sizes[-1], space.dim), space)


def hidden_layers(sizes: Sequence[int]) -> list[nn.Module]:
    """Return linear layers between neighbours of these widths, each with a leaky ReLU of slope 0.01 behind it."""
    return [layer for before, after in pairwise(sizes) for layer in (nn.Linear(before, after), nn.LeakyReLU())]
