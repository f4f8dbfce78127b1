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
from ident3d.training.views.augmentations import augment as view_of
from ident3d.training.views.augmentations import augment_pair
from ident3d.training.views.choice import Augmentation
from ident3d.training.views.pixels import Pixels

# Components that stand for images without an encoder.
COMPONENTS = 10
# Images that the components are fitted to.
FITTED = 1024
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


def run_size(run: Run | Path | str | None) -> int | None:
    """Return the width of the images that a run's encoder was trained on."""
    opened = open_run(run) if isinstance(run, Path | str) else run
    return None if opened is None else opened.settings.size


def chosen_codes(
    run: Run | Path | str | None, folder: Path, own: Any, images: ImageDataset, numbers: NDArray[np.int64], width: int,
    device: torch.device,
) -> tuple[ToCodes, str]:  # fmt: skip
    """Return what makes codes of images, and what these are called."""
    if run is not None:
        return codes_by_run(run, folder, own, device), f"of the run {run.path if isinstance(run, Run) else run}"
    some = torch.cat([unit_images(images, part, width, device) for part in in_parts(numbers[:FITTED])])
    return codes_by_components(some), "principal components of the pixels"


def in_parts(numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the numbers in parts of at most 256, so that memory does not grow with them."""
    return list(np.array_split(numbers, -(-len(numbers) // AT_ONCE)))


def codes_of_pairs(
    images: ImageDataset, numbers: NDArray[np.int64], how: Augmentation, width: int, to_codes: ToCodes,
    device: torch.device, seed: int,
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:  # fmt: skip
    """Return the codes of two views of each image, each (N, d), and the pixels of both, averaged down."""
    generator = torch.Generator().manual_seed(seed)
    codes: tuple[list[NDArray[Any]], ...] = ([], [])
    pixels: tuple[list[NDArray[Any]], ...] = ([], [])
    for some in in_parts(numbers):
        for k, view in enumerate(augment_pair(unit_images(images, some, width, device), how, generator)):
            codes[k].append(to_codes(view))
            pixels[k].append(rows_of(view).float().numpy())
    return [np.concatenate(each) for each in codes], [np.concatenate(each) for each in pixels]


def codes_of_views(
    images: ImageDataset, numbers: NDArray[np.int64], how: Augmentation, views: int, width: int, to_codes: ToCodes,
    device: torch.device, seed: int,
) -> NDArray[np.float32]:  # fmt: skip
    """Return the codes of so many views of each image (images, views, d)."""
    generator = torch.Generator().manual_seed(seed + 1)
    counts = [len(part) for part in in_parts(np.arange(views))]
    return np.stack(
        [
            np.concatenate([to_codes(view_of(image.expand(count, -1, -1, -1), how, generator)) for count in counts])
            for image in unit_images(images, numbers, width, device)
        ]
    )
