"""Mixings and encoders of a researcher's own, named by import path, as own_mixing:Rotation."""

import torch
from torch import Tensor, nn


class Twice(nn.Module):
    """x = (2 z, z²): more observations than latents, and a parameter that must not be trained."""

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((latents,), 2.0))

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([self.factor * z, z.square()], 1)


def line(inputs: int, outputs: int) -> nn.Module:
    return nn.Linear(inputs, outputs)


def too_few(inputs: int, outputs: int) -> nn.Module:
    return nn.Linear(inputs, outputs - 1)


def flat(latents: int) -> nn.Module:
    return nn.Flatten(0)


def nothing(latents: int) -> None:
    return None
