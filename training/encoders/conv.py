"""A small encoder for images of 32 or 64 pixels: few convolutions, and a head that sees where each feature lies."""

from itertools import pairwise

from torch import nn

from ident3d.training.encoders.choice import SMALLEST_IMAGE, check_image_size

# Channels of the first convolution and the most of any, and the units behind them.
FIRST, MOST, UNITS = 32, 256, 256


def halvings(size: int) -> int:
    """Return how often an image of this width is halved until it is less than 8 pixels wide: 4 times for 64."""
    count = 0
    while size >= SMALLEST_IMAGE:
        size, count = size // 2, count + 1
    return count


def conv_net(outputs: int | None, size: int, channels: int = 3) -> nn.Sequential:
    """Return 4×4 convolutions of stride 2 with 32, 64, 128, 256 … channels, flattened, and two linear layers.

    Each halves the image, until it is less than 8 pixels wide: four convolutions for 64 pixels, three for 32. Batch
    norm and ReLU follow every layer but the last. The features are flattened and not averaged, so that positions need
    not be carried through channels.

    Args:
        outputs: The number of outputs; None leaves the last linear layer away, and gives 256 features.
        size: The width of the images, at least 8.
        channels: Channels C of the images, such as 1 for grey ones.

    Returns:
        A module: images (N, C, size, size) → (N, outputs).

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> encoders.conv_net(10, size=32)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    check_image_size("conv", size)
    count = halvings(size)
    widths = [channels, *(min(FIRST * 2**k, MOST) for k in range(count))]
    side = size >> count
    layers: list[nn.Module] = []
    # The batch norm behind a layer brings the bias.
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 4, 2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
    features = widths[-1] * side**2
    layers += [nn.Flatten(), nn.Linear(features, UNITS, bias=False), nn.BatchNorm1d(UNITS), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *([] if outputs is None else [nn.Linear(UNITS, outputs)]))
