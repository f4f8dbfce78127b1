"""From stored pixels to an encoder's input, on the device: size, unit range, the training set's mean and std."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ident3d.errors import UserError


@dataclass(frozen=True)
class Pixels:
    """How pixels are prepared: mean and std per channel in the unit range, and the size (None: as they come).

    Args:
        mean: Of each channel, in [0, 1], such as a dataset's `mean`.
        std: Of each channel, in [0, 1], such as a dataset's `std`.
        size: The images' size after averaging over areas; None leaves them as they come.

    Example:
        >>> import torch
        >>> from ident3d.views import Pixels
        >>> pixels = Pixels((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), size=8)
        >>> x = torch.full((2, 3, 16, 16), 255, dtype=torch.uint8)
        >>> unit = pixels.unit(x, torch.device("cpu"))
        >>> unit.shape, pixels.normalise(unit).max().item()
        (torch.Size([2, 3, 8, 8]), 1.0)
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int | None = None

    def __post_init__(self) -> None:
        if len(self.mean) not in (1, 3) or len(self.std) != len(self.mean):
            raise UserError("Images have one or three channels, each with a mean and a standard deviation.")
        if not all(map(isfinite, (*self.mean, *self.std))) or min(self.std) <= 0:
            raise UserError(f"These images cannot be normalised: their standard deviations are {self.std}.")
        if self.size is not None and self.size < 1:
            raise UserError(f"Images are at least one pixel wide, not {self.size}.")

    @property
    def channels(self) -> int:
        return len(self.mean)

    def unit(self, images: Tensor, device: torch.device) -> Tensor:
        """Return float32 (N, C, size, size) in [0, 1] on `device` of uint8 (N, C, H, W) on any, averaged over areas."""
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != self.channels:
            due = f"(N, {self.channels}, H, W)"
            raise UserError(f"Images come as uint8 {due}, not as {images.dtype} {tuple(images.shape)}.")
        # They travel to the device as bytes, a quarter of the floats that they become there.
        stored = images.shape[-1]
        pixels = images.to(device, non_blocking=True).to(memory_format=torch.channels_last).float().div_(255)
        if self.size is None or self.size == stored:
            return pixels
        if self.size > stored:
            raise UserError(f"The images are {stored} pixels wide and are not enlarged to {self.size}.")
        return interpolate(pixels, (self.size, self.size), mode="area")

    def prepare(self, images: Tensor, device: torch.device) -> Tensor:
        """Return `normalise(unit(images))`, to the same bits, without another copy of the images."""
        return self._standardise(self.unit(images, device))

    def normalise(self, pixels: Tensor) -> Tensor:
        """Return (x - mean) / std for x (N, C, H, W) in the unit range, channels last."""
        return self._standardise(pixels.clone())

    def _standardise(self, pixels: Tensor) -> Tensor:
        """Return (x - mean) / std, channels last, written over the pixels where these are so already."""
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        n, channels, height, width = pixels.shape
        # Three numbers at a time leave the CPU's vectors nearly empty: a line of pixels at a time is six times as fast.
        lines = pixels.permute(0, 2, 3, 1).view(n, height, width * channels)
        mean, std = (pixels.new_tensor(values).repeat(width) for values in (self.mean, self.std))
        lines.sub_(mean).div_(std)
        return pixels


def normalise(
    images: Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    device: torch.device | str | None = None,
    size: int | None = None,
) -> Tensor:
    """Return an encoder's input, (x / 255 - mean) / std in float32 on the device, of stored images x.

    The images travel to the device as bytes.

    Args:
        images: uint8 (N, C, H, W), as loaders and datasets give them.
        mean: Of each channel, in [0, 1], such as the `mean` of a PairDataset.
        std: Of each channel, in [0, 1], such as the `std` of a PairDataset.
        device: Where the input shall be; by default where the images are.
        size: The input's size, averaged over areas; by default the images' own.

    Returns:
        float32 (N, C, size, size), channels last in memory.

    Example:
        >>> import torch
        >>> from ident3d.views import normalise
        >>> x = torch.full((2, 3, 4, 4), 51, dtype=torch.uint8)
        >>> normalise(x, mean=(0.1, 0.1, 0.1), std=(0.5, 0.5, 0.5))[0, :, 0, 0]
        tensor([0.2000, 0.2000, 0.2000])
    """
    if not isinstance(images, Tensor):
        raise UserError(f"normalise takes a uint8 tensor, not a {type(images).__name__}; torch.as_tensor makes one.")
    pixels = Pixels(tuple(mean), tuple(std), size)
    return pixels.normalise(pixels.unit(images, images.device if device is None else torch.device(device)))
