"""Views: what the encoder sees of a batch, whether its pairs come from a conditional or from augmentations.

Both kinds are called as `views(batch, device)`, and give the normalised images with the latents that belong to them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from ident3d.errors import UserError
from ident3d.training.views.augmentations import augment_pair
from ident3d.training.views.choice import Augmentation
from ident3d.training.views.pixels import Pixels

# what a loader gives: ((z, z̃), (x, x̃)) from a PairDataset, (x, z) from an ImageDataset
Batch: TypeAlias = Sequence[Tensor] | Sequence[Sequence[Tensor]]


class Views(NamedTuple):
    """x and x̃ (and hard negatives, where the batch has them): images (N, 3, S, S), latents (N, k)."""

    images: tuple[Tensor, ...]
    latents: tuple[Tensor, ...]


class MakeViews(Protocol):
    """A loader's batch → its views on the device."""

    def __call__(self, batch: Batch, device: torch.device) -> Views: ...


class PairViews:
    """The pairs of a PairDataset, with its hard negatives as third views where it has them."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels

    def __call__(self, batch: Batch, device: torch.device) -> Views:
        latents, images = batch
        if isinstance(images, Tensor) or isinstance(latents, Tensor) or len(images) < 2:
            raise UserError("These are single images, where pairs are needed: use a PairDataset, or augmentations.")
        views = tuple(self.pixels.normalise(self.pixels.unit(view, device)) for view in images)
        return Views(views, tuple(z.to(device, non_blocking=True) for z in latents))


class AugmentedViews:
    """Two augmentations of each image of an ImageDataset; both have the image's latents."""

    def __init__(self, pixels: Pixels, augmentation: Augmentation, generator: torch.Generator) -> None:
        self.pixels = pixels
        self.augmentation = augmentation
        self.generator = generator

    def __call__(self, batch: Batch, device: torch.device) -> Views:
        images, latents = batch
        if not isinstance(images, Tensor) or not isinstance(latents, Tensor):
            raise UserError("These are pairs, where single images are augmented: use an ImageDataset.")
        first, second = augment_pair(self.pixels.unit(images, device), self.augmentation, self.generator)
        z = latents.to(device, non_blocking=True)
        return Views((self.pixels.normalise(first), self.pixels.normalise(second)), (z, z))


class ImageViews:
    """The images of an ImageDataset as they are: one view, for supervised training."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels

    def __call__(self, batch: Batch, device: torch.device) -> Views:
        images, latents = batch
        if not isinstance(images, Tensor) or not isinstance(latents, Tensor):
            raise UserError("These are pairs, where single images are wanted: use an ImageDataset.")
        x = self.pixels.normalise(self.pixels.unit(images, device))
        return Views((x,), (latents.to(device, non_blocking=True),))
