"""Views: what the encoder sees of a batch, whether its pairs come from a conditional or from augmentations.

All kinds end with (batch, device), and return the normalised images with the latents that belong to them. What comes
before is bound by `partial`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from ident3d.errors import UserError
from ident3d.training.views.augmentations import augment_pair
from ident3d.training.views.choice import Augmentation
from ident3d.training.views.pixels import Pixels

# What a loader gives: ((z, z̃), (x, x̃)) from a PairDataset, (z, x) from an ImageDataset
Batch: TypeAlias = Sequence[Tensor] | Sequence[Sequence[Tensor]]


class Views(NamedTuple):
    """x and x̃ (and hard negatives, where the batch has them): images (N, C, S, S), latents (N, k)."""

    images: tuple[Tensor, ...]
    latents: tuple[Tensor, ...]


# A loader's batch → its views on the device.
MakeViews: TypeAlias = Callable[[Batch, torch.device], Views]


def pair_views(pixels: Pixels, batch: Batch, device: torch.device) -> Views:
    """Return the pairs of a PairDataset, with its hard negatives as third views if it has them."""
    latents, images = batch
    if isinstance(images, Tensor) or isinstance(latents, Tensor) or len(images) < 2:
        raise UserError("These are single images, where pairs are needed: use a PairDataset, or augmentations.")
    views = tuple(pixels.prepare(view, device) for view in images)
    return Views(views, tuple(z.to(device, non_blocking=True) for z in latents))


def augmented_views(
    pixels: Pixels, augmentation: Augmentation, generator: torch.Generator, batch: Batch, device: torch.device
) -> Views:
    """Return two augmentations of each image of an ImageDataset; both have the image's latents."""
    images, z = single_images(batch, device)
    first, second = augment_pair(pixels.unit(images, device), augmentation, generator)
    return Views((pixels.normalise(first), pixels.normalise(second)), (z, z))


def image_views(pixels: Pixels, batch: Batch, device: torch.device) -> Views:
    """Return the images of an ImageDataset as they are: one view, for supervised training."""
    images, z = single_images(batch, device)
    return Views((pixels.prepare(images, device),), (z,))


def single_images(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return an ImageDataset's stored images, and their latents on the device. Raise UserError for pairs."""
    latents, images = batch
    if not isinstance(images, Tensor) or not isinstance(latents, Tensor):
        raise UserError("These are pairs, where single images are needed: use an ImageDataset.")
    return images, latents.to(device, non_blocking=True)
