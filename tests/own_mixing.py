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


def too_many(inputs: int, outputs: int) -> nn.Module:
    """An encoder of more numbers than there are."""
    return nn.Linear(inputs + 1, outputs)


class TooMany(nn.Linear):
    """A mixing of more latents than there are."""

    def __init__(self, latents: int) -> None:
        super().__init__(latents + 1, latents)


def constant(z: Tensor, z_tilde: Tensor, candidates: Tensor) -> Tensor:
    return torch.ones(len(z))


def of_two(z: Tensor, z_tilde: Tensor) -> Tensor:
    return (z - z_tilde).square().sum(1)


def broken(z: Tensor, z_tilde: Tensor, candidates: Tensor) -> Tensor:
    return (z @ z_tilde).sum(1)


def steep(z: Tensor, z_tilde: Tensor, candidates: Tensor) -> Tensor:
    """Finite for codes of a small encoder, no number at all where codes may grow."""
    return torch.where(z.abs().sum(1) > 50, torch.nan, -z.square().sum(1))
