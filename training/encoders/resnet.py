"""ResNet-18, 34 and 50 (He et al. 2016), with parameter names and initialisation of the usual checkpoints."""

from collections.abc import Sequence
from typing import ClassVar, Final, TypeAlias

from torch import Tensor, nn
from torch.nn.functional import relu

from ident3d.errors import UserError


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Return a convolution that keeps the image's size up to its stride; the normalisation after it brings the bias."""
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class BasicBlock(nn.Module):
    """x + two 3×3 convolutions of x."""

    expansion: ClassVar[int] = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(inputs, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(inputs, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, width, H/stride, W/stride) of (N, inputs, H, W)."""
        y = relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return relu(y + self.downsample(x), inplace=True)


class Bottleneck(nn.Module):
    """x + a 1×1 convolution to fewer channels, a 3×3 one that carries the stride, and a 1×1 one to four times more."""

    expansion: ClassVar[int] = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, 4·width, H/stride, W/stride) of (N, inputs, H, W)."""
        y = relu(self.bn1(self.conv1(x)), inplace=True)
        y = relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return relu(y + self.downsample(x), inplace=True)


Block: TypeAlias = type[BasicBlock] | type[Bottleneck]


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return the way around a block: the input itself, or a 1×1 convolution of it if shapes differ."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """A stem, four stages of blocks, the mean over the image, a linear layer: (N, C, H, W) → (N, outputs).

    The usual stem shrinks an image fourfold, by a 7×7 convolution and a pooling. The small one keeps its size: a 3×3
    convolution. If `flat` names the images' width, the features are flattened and not averaged. Without `outputs` there
    is no linear layer, and the features are the outputs. `width` is their number.
    """

    def __init__(
        self,
        block: Block,
        blocks: Sequence[int],
        outputs: int | None,
        *,
        flat: int | None = None,
        small_stem: bool = False,
        channels: int = 3,
    ) -> None:
        super().__init__()
        self.flat = flat is not None
        self.conv1 = conv(channels, 64, 3) if small_stem else conv(channels, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small_stem else nn.MaxPool2d(3, 2, padding=1)
        width = 64 * block.expansion
        self.layer1 = stage(block, 64, 64, blocks[0], 1)
        self.layer2 = stage(block, width, 128, blocks[1], 2)
        self.layer3 = stage(block, 2 * width, 256, blocks[2], 2)
        self.layer4 = stage(block, 4 * width, 512, blocks[3], 2)
        # Three stages halve the image. Every halving rounds up.
        side = 1 if flat is None else -(-flat // (8 if small_stem else 32))
        self.width = 8 * width * side**2
        self.fc = nn.Identity() if outputs is None else nn.Linear(self.width, outputs)
        # The initialisation of the usual checkpoints. PyTorch's default is another one.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        outputs: Tensor = self.fc(x.flatten(1) if self.flat else x.mean((2, 3)))
        return outputs


def stage(block: Block, inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    """Return blocks of one width; the first of them takes the stride."""
    # Made before the first block: the order decides which random numbers each gets.
    rest = [block(width * block.expansion, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(block(inputs, width, stride), *rest)


# The number of layers → the kind of block, and how many each stage has.
STAGES: Final[dict[int, tuple[Block, tuple[int, ...]]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}


def resnet(
    layers: int, outputs: int | None, *, flat: int | None = None, small_stem: bool = False, channels: int = 3
) -> ResNet:
    """Return a ResNet-18, ResNet-34 or ResNet-50 with random weights.

    Args:
        layers: 18, 34 or 50.
        outputs: The number of outputs; None leaves the last linear layer away, and gives the features.
        flat: The images' width, to flatten the last features; by default they are averaged.
        small_stem: Begin with a 3×3 convolution that keeps the image's size.
        channels: Channels C of the images, such as 1 for grey ones.

    Returns:
        A module: images (N, C, H, W) → (N, outputs).

    Example:
        >>> import torch
        >>> from ident3d import encoders
        >>> encoders.resnet(18, outputs=10)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    if layers not in STAGES:
        raise UserError(f"A ResNet has {', '.join(map(str, STAGES))} layers, not {layers}.")
    block, blocks = STAGES[layers]
    return ResNet(block, blocks, outputs, flat=flat, small_stem=small_stem, channels=channels)
