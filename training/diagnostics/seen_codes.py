"""Codes in which a user's own images are diagnosed: those of a run's encoder, or principal components of the pixels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.training.images.run import Run, open_run, trained_encoder
from ident3d.training.images.which_dataset import read_fitting
from ident3d.training.loop.devices import on_device
from ident3d.training.loop.dtype import autocast
from ident3d.training.views.pixels import Pixels

# Components that stand for images without an encoder.
COMPONENTS = 10
AT_ONCE = 256
# Wider images are averaged down where pixels themselves are compared.
WIDEST = 32

Floats32 = NDArray[np.float32]
# Images in the unit range (N, C, S, S) on the device → codes (N, d).
ToCodes = Callable[[Tensor], Floats32]


def codes_by_run(run: Run | Path | str, folder: Path, own: Any, device: torch.device) -> ToCodes:
    """Return the trained encoder of a run as a function of images in the unit range."""
    opened = run if isinstance(run, Run) else open_run(run)
    read_fitting(opened, folder)
    model = on_device(trained_encoder(opened, own)[0], device).eval()
    dtype = opened.dtype if device.type != "cpu" or opened.dtype != "fp16" else "fp32"

    @torch.inference_mode()
    def encoded(images: Tensor) -> Floats32:
        parts = []
        for part in torch.split(images, AT_ONCE):
            with autocast(dtype, device):
                parts.append(model(opened.pixels.normalise(part)).float().cpu().numpy())
        return np.concatenate(parts)

    return encoded


def codes_by_components(images: Tensor, dim: int = COMPONENTS) -> ToCodes:
    """Return the projection onto the first principal components of these images, averaged down, or as many as rows."""
    rows = rows_of(images)
    middle = rows.mean(0)
    _, _, directions = torch.linalg.svd(rows - middle, full_matrices=False)
    first = directions[: min(dim, len(rows) - 1)].T

    def projected(some: Tensor) -> Floats32:
        projection: Floats32 = ((rows_of(some) - middle) @ first).float().numpy()
        return projection

    return projected


def rows_of(images: Tensor) -> Tensor:
    """Return images (N, C, S, S) as rows of pixels (N, C·s·s), float64 on the CPU, averaged down to at most 32 wide."""
    side = min(WIDEST, images.shape[-1])
    return adaptive_avg_pool2d(images, side).flatten(1).cpu().double()


def unit_images(images: ImageDataset, numbers: NDArray[np.int64], size: int | None, device: torch.device) -> Tensor:
    """Return images by number in the unit range (N, C, S, S), averaged down to `size` if it is given."""
    channels = images.shape[2]
    pixels = Pixels((0.0,) * channels, (1.0,) * channels, size)
    return pixels.unit(images.batch(numbers)[1], device)
