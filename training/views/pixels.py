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
    """How pixels are prepared: mean and std per channel in the unit range, and the size (None: as they come)."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: int | None = None

    def __post_init__(self) -> None:
        if len(self.mean) != 3 or len(self.std) != 3:
            raise UserError("Images have three channels, each with a mean and a standard deviation.")
        if not all(map(isfinite, (*self.mean, *self.std))) or min(self.std) <= 0:
            raise UserError(f"These images cannot be normalised: their standard deviations are {self.std}.")
        if self.size is not None and self.size < 1:
            raise UserError(f"Images are at least one pixel wide, not {self.size}.")

    def unit(self, images: Tensor, device: torch.device) -> Tensor:
        """uint8 (N, 3, H, W) on any device → float32 (N, 3, size, size) in [0, 1] on `device`, averaged over areas."""
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise UserError(f"Images come as uint8 (N, 3, H, W), not as {images.dtype} {tuple(images.shape)}.")
        # They travel to the device as bytes, a quarter of the floats that they become there.
        stored = images.shape[-1]
        pixels = images.to(device, non_blocking=True).to(memory_format=torch.channels_last).float().div_(255)
        if self.size is None or self.size == stored:
            return pixels
        if self.size > stored:
            raise UserError(f"The images are {stored} pixels wide and are not enlarged to {self.size}.")
        return interpolate(pixels, (self.size, self.size), mode="area")

    def normalise(self, pixels: Tensor) -> Tensor:
        """(x - mean) / std for x (N, 3, H, W) in the unit range, channels last."""
        mean, std = (_per_channel(values, pixels) for values in (self.mean, self.std))
        return pixels.sub(mean).div_(std).contiguous(memory_format=torch.channels_last)


def _per_channel(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, device=like.device, dtype=like.dtype)[:, None, None]
