"""The encoders of the papers on dSprites, Natural Sprites, KITTI Masks and MNIST, and the decoders that go with them.

Each takes images in [0, 1] with C channels, of 64 pixels; a perceptron takes any. A decoder gives logits:
sigmoid(logits) is the image.
"""

from collections.abc import Callable
from math import prod
from typing import Final

from torch import nn

from ident3d.errors import UserError
from ident3d.training.encoders.choice import check_decoder, hidden_widths, is_widths
from ident3d.training.encoders.perceptron import hidden_layers
from ident3d.training.losses.choice import DECODED_SIZE

# Filters of both networks, and the units behind them.
FEW, MANY, UNITS = 32, 64, 256


def higgins_net(outputs: int, channels: int = 1) -> nn.Sequential:
    """Return the encoder of the β-VAE and SlowVAE papers: convolutions C → 32 → 32 → 64 → 64 → 256, then linear.

    Kernels are 4×4; the first four have stride 2 and padding 1, the fifth sees all 4×4 places at once. ReLU follows
    each. Weights start as N(0, 2/fan-in), biases at 0. With one channel and 10 outputs it has 380,362 parameters.

    Args:
        outputs: The number of outputs: d codes, or 2d for means and log variances.
        channels: Channels C of the images.

    Returns:
        A module: images (N, C, 64, 64) → (N, outputs).

    Reference: Higgins et al., "β-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework", ICLR
    2017.

    Example:
        >>> from ident3d import encoders
        >>> sum(weights.numel() for weights in encoders.higgins_net(10).parameters())
        380362
    """
    net = nn.Sequential(
        *(nn.Conv2d(channels, FEW, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(FEW, FEW, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(FEW, MANY, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(MANY, MANY, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(MANY, UNITS, 4, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(UNITS, outputs)),
    )
    start(net, nn.init.kaiming_normal_)
    return net


def locatello_net(outputs: int, channels: int = 1) -> nn.Sequential:
    """Return the encoder of Ada-GVAE's paper: convolutions C → 32 → 32 → 64 → 64, then linear to 256 and to outputs.

    The first two have kernels of 4×4, the others of 2×2, all with stride 2. ReLU follows each layer but the last.
    Weights start as Glorot's uniform ones, biases at 0: the defaults of the framework that the paper used.

    Args:
        outputs: The number of outputs: d codes, or 2d for means and log variances.
        channels: Channels C of the images.

    Returns:
        A module: images (N, C, 64, 64) → (N, outputs).

    Reference: Locatello et al., "Weakly-Supervised Disentanglement Without Compromises", ICML 2020.

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> encoders.locatello_net(20, channels=3)(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 20])
    """
    net = nn.Sequential(
        *(nn.Conv2d(channels, FEW, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(FEW, FEW, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(FEW, MANY, 2, 2), nn.ReLU()),
        *(nn.Conv2d(MANY, MANY, 2, 2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * MANY, UNITS), nn.ReLU()),
        nn.Linear(UNITS, outputs),
    )
    start(net, nn.init.xavier_uniform_)
    return net


def pixel_perceptron(widths: str, outputs: int, size: int, channels: int = 1) -> nn.Sequential:
    """Return a perceptron on all pixels at once, with a leaky ReLU of slope 0.01 behind each hidden layer.

    With widths 512x2 it is the three fully connected layers 784 → 512 → 512 → outputs on MNIST.

    Args:
        widths: The hidden layers, such as "512x2" or "512,256".
        outputs: The number of outputs: d codes, or 2d for means and log variances.
        size: The width of the images.
        channels: Channels C of the images.

    Returns:
        A module: images (N, C, size, size) → (N, outputs).

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> encoders.pixel_perceptron("512x2", 20, size=28)(torch.zeros(3, 1, 28, 28)).shape
        torch.Size([3, 20])
    """
    sizes = [channels * size**2, *hidden_widths(widths, 0)]
    return nn.Sequential(nn.Flatten(), *hidden_layers(sizes), nn.Linear(sizes[-1], outputs))


def decoder(name: str, dim: int, channels: int = 1, size: int = DECODED_SIZE) -> nn.Sequential:
    """Return the decoder that goes with an encoder: higgins, locatello, or hidden widths such as 512x2.

    higgins: linear d → 256, then transposed convolutions 256 → 64 → 64 → 32 → 32 → C of 4×4, the first over one place
    and the others with stride 2. Its linear layer starts as the encoder's, its convolutions at PyTorch's default. With
    d = 10 and one channel it has 380,353 parameters, and 763,285 with an encoder of 20 outputs.
    locatello: linear d → 256 → 1024, then transposed convolutions 64 → 64 → 32 → 32 → C of 4×4 with stride 2.
    Widths: the layers of `pixel_perceptron` in the other direction.

    Args:
        name: higgins, locatello, or the encoder's hidden widths.
        dim: The number of codes d.
        channels: Channels C of the images.
        size: The width of the images; 64 unless widths are given.

    Returns:
        A module: codes (N, d) → logits (N, C, size, size), whose sigmoid is the image.

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> encoders.decoder("higgins", 10)(torch.zeros(2, 10)).shape
        torch.Size([2, 1, 64, 64])
    """
    check_decoder(name)
    if is_widths(name):
        sizes = [dim, *reversed(hidden_widths(name, 0))]
        pixels = (channels, size, size)
        return nn.Sequential(*hidden_layers(sizes), nn.Linear(sizes[-1], prod(pixels)), nn.Unflatten(1, pixels))
    if size != DECODED_SIZE:
        raise UserError(f"The decoder {name} makes images of {DECODED_SIZE} pixels, not {size}.")
    if name == "locatello":
        layers = [
            *(nn.Linear(dim, UNITS), nn.ReLU(), nn.Linear(UNITS, 16 * MANY), nn.ReLU()),
            *(nn.Unflatten(1, (MANY, 4, 4)), nn.ConvTranspose2d(MANY, MANY, 4, 2, 1), nn.ReLU()),
            *(nn.ConvTranspose2d(MANY, FEW, 4, 2, 1), nn.ReLU()),
        ]
    else:
        layers = [
            *(nn.Linear(dim, UNITS), nn.Unflatten(1, (UNITS, 1, 1)), nn.ReLU()),
            *(nn.ConvTranspose2d(UNITS, MANY, 4, 1), nn.ReLU()),
            *(nn.ConvTranspose2d(MANY, MANY, 4, 2, 1), nn.ReLU()),
            *(nn.ConvTranspose2d(MANY, FEW, 4, 2, 1), nn.ReLU()),
        ]
    last = [nn.ConvTranspose2d(FEW, FEW, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(FEW, channels, 4, 2, 1)]
    net = nn.Sequential(*layers, *last)
    if name == "locatello":
        start(net, nn.init.xavier_uniform_, (nn.Linear, nn.ConvTranspose2d))
    else:
        start(net, nn.init.kaiming_normal_)
    return net


NETS: Final[dict[str, Callable[[int, int], nn.Sequential]]] = {"higgins": higgins_net, "locatello": locatello_net}


def start(
    net: nn.Module, draw: Callable[..., object], kinds: tuple[type[nn.Module], ...] = (nn.Conv2d, nn.Linear)
) -> None:
    """Draw the weights of a network's layers of these kinds anew, and set their biases to 0."""
    for layer in net.modules():
        if isinstance(layer, kinds):
            draw(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
