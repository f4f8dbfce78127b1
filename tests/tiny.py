"""Encoders and losses of a researcher's own, small enough for tests; named by import path, as tiny:convolution."""

import torch
from torch import Tensor, nn


def convolution(outputs: int) -> nn.Module:
    """With batch statistics and random draws: all that a resumed run has to get back."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(8 * 7 * 7, outputs),
    )


def plain(outputs: int) -> nn.Module:
    """Without batch statistics: ranks and chunks give exactly the joint batch's gradients."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 32), nn.Tanh(), nn.Linear(32, outputs))


def idle(outputs: int) -> nn.Module:
    """With a layer that no image ever meets."""

    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = plain(outputs), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    return Idle()


def small(outputs: int) -> nn.Module:
    """For images of 8 pixels and no others."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, outputs))


def constant(outputs: int) -> nn.Module:
    """The same codes for all images."""
    layer = nn.Linear(3 * 16 * 16, outputs)
    nn.init.zeros_(layer.weight)
    return nn.Sequential(nn.Flatten(), layer, NoGradient())


class NoGradient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0 * x.detach()


def vast(outputs: int) -> nn.Module:
    """More than any machine's memory from the second step on."""

    class Vast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = plain(outputs)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls > 1:
                torch.empty(2**50)
            return self.layers(x)

    return Vast()


def broken(outputs: int) -> nn.Module:
    """Codes that are no numbers from the second step on."""

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3 * 16 * 16, outputs)
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.layer(x.flatten(1)) * (torch.nan if self.calls > 2 else 1.0)

    return Broken()


def squared(anchors: Tensor, positives: Tensor, candidates: Tensor) -> Tensor:
    """A loss of a researcher's own, one value per anchor."""
    away = torch.cdist(anchors, candidates).square().neg().logsumexp(1)
    return (anchors - positives).square().sum(1) + away


def weighed(codes: Tensor, latents: Tensor) -> Tensor:
    """A supervised loss of a researcher's own."""
    assert codes.shape == latents.shape
    return (codes - latents).square() @ torch.linspace(1.0, 2.0, codes.shape[1])


module = plain(100)  # for ten codes


class Sharp(nn.Module):
    """A loss of a researcher's own that cannot be made without a number."""

    def __init__(self, sharpness: float) -> None:
        super().__init__()
        self.sharpness = sharpness


class Scaled(nn.Module):
    """A loss of a researcher's own that learns a number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, anchors: Tensor, positives: Tensor, candidates: Tensor) -> Tensor:
        return squared(self.scale * anchors, self.scale * positives, self.scale * candidates)


scaled = Scaled()


def smallest(outputs: int) -> nn.Module:
    """For images of 16 pixels: a few thousand weights, so that its checkpoint can be kept as test data."""
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3 * 4 * 4, outputs))
