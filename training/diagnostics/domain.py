"""A domain classifier: how well a small network tells augmented images from images as they are."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.progress import progress_bar
from ident3d.training.diagnostics.seen_codes import AT_ONCE, unit_images
from ident3d.training.encoders.conv import conv_net
from ident3d.training.loop.devices import on_device
from ident3d.training.loop.steps import rate_factor, set_rates
from ident3d.training.views.augmentations import augment
from ident3d.training.views.choice import Augmentation

LR = 1e-3


@dataclass(frozen=True)
class DomainAccuracy:
    """Held-out accuracy of the classifier, .5 by chance, the loss of its steps, and the logits of what it scored."""

    accuracy: float
    steps: int
    losses: list[float]
    plain: NDArray[np.float32]
    augmented: NDArray[np.float32]


def domain_accuracy(
    images: ImageDataset,
    fit: NDArray[np.int64],
    others: ImageDataset,
    held_out: NDArray[np.int64],
    how: Augmentation,
    *,
    steps: int,
    batch: int,
    size: int,
    device: torch.device,
    seed: int = 0,
    show: bool = True,
) -> DomainAccuracy:
    """Train conv on half plain, half augmented images of numbers `fit`, and score it on others in both forms.

    `held_out` are numbers of `others`, which may be the same folder. No image is in both halves of a batch: what tells
    them apart is the augmentation, and not a comparison.
    """
    draws, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    net = on_device(conv_net(1, size, images.shape[2]), device)
    optimiser = torch.optim.Adam(net.parameters(), lr=LR)
    batch = min(batch, len(fit)) // 2 * 2
    due = torch.arange(batch, device=device) < batch // 2
    losses = []
    with progress_bar(steps, "steps", show=show) as bar:
        for step in range(steps):
            numbers = draws.choice(fit, batch, replace=False)
            x = centred(mixed(unit_images(images, numbers, size, device), due, how, generator))
            set_rates(optimiser, [LR], rate_factor("cosine", steps, step))
            optimiser.zero_grad()
            loss = binary_cross_entropy_with_logits(net(x)[:, 0], due.float())
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(round(float(loss.detach()), 5))
            bar.update(1)
    net.eval()
    logits: tuple[list[Tensor], list[Tensor]] = ([], [])
    with torch.inference_mode():
        for some in np.array_split(held_out, -(-len(held_out) // AT_ONCE)):
            part = unit_images(others, some, size, device)
            for into, each in zip(logits, (part, augment(part, how, generator)), strict=True):
                into.append(net(centred(each))[:, 0].cpu())
    plain, augmented = (torch.cat(each) for each in logits)
    accuracy = float(torch.cat([plain < 0, augmented > 0]).double().mean())
    return DomainAccuracy(accuracy, steps, losses, plain.numpy(), augmented.numpy())


def mixed(images: Tensor, which: Tensor, how: Augmentation, generator: torch.Generator) -> Tensor:
    """Return the images, those of `which` (N,) augmented."""
    result = images.clone()
    result[which] = augment(images[which], how, generator)
    return result


def centred(images: Tensor) -> Tensor:
    """Return images of the unit range between -1 and 1, channels last."""
    return (2 * images - 1).contiguous(memory_format=torch.channels_last)
