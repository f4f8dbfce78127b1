"""Encoders of mixed latents: multilayer perceptrons, the papers' or of any widths, and an output space behind them."""

import re
from itertools import pairwise

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.encoders.output_spaces import OutputSpace
from ident3d.training.loop.dtype import wide
from ident3d.training.loop.own_code import own_module

PAPERS = "papers"


class Perceptron(nn.Module):
    """f(x) = space(W_L φ(… φ(W_1 x + b_1)) + b_L), φ the leaky ReLU: observations (N, any) → codes (N, d).

    Under autocast the layers compute in 16 bits, the last and the space in float32.
    """

    def __init__(self, layers: nn.Module, last: nn.Module, space: OutputSpace) -> None:
        super().__init__()
        self.layers, self.last, self.space = layers, last, space

    def forward(self, x: Tensor) -> Tensor:
        features = self.layers(x)
        with torch.autocast(x.device.type, enabled=False):  # 16 bits would round codes before they are compared
            raw = self.last(wide(features))
        if raw.shape != (len(x), self.space.dim):
            raise UserError(
                f"The encoder gives codes of shape {tuple(raw.shape)} where {(len(x), self.space.dim)} are needed."
            )
        codes: Tensor = self.space(raw)
        return codes


def perceptron(name: str, inputs: int, space: OutputSpace) -> Perceptron:
    """An encoder of `inputs` numbers: "papers", hidden widths such as "256x4" or "100,500x4,100", or your own.

    The papers' widths are 10d, four times 50d, 10d. Your own, "package.module:name", is called with the numbers of
    inputs and outputs, or is an nn.Module that has as many.
    """
    if ":" in name:
        return Perceptron(own_module("encoder", name, inputs=inputs, outputs=space.dim), nn.Identity(), space)
    sizes = [inputs, *widths(name, inputs)]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.LeakyReLU()]
    return Perceptron(nn.Sequential(*layers), nn.Linear(sizes[-1], space.dim), space)


def widths(name: str, inputs: int) -> list[int]:
    """The hidden widths that a name stands for."""
    if name == PAPERS:
        return [10 * inputs, *[50 * inputs] * 4, 10 * inputs]
    found = [re.fullmatch(r"([1-9]\d{0,5})(?:x([1-9]\d?))?", part) for part in name.split(",")]
    if not all(found):
        raise UserError(
            f"There is no encoder {name!r}; take papers, hidden widths such as 256x4 or 100,500x4,100, or "
            "package.module:name."
        )
    return [int(part[1]) for part in found if part for _ in range(int(part[2] or 1))]
