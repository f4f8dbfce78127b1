"""SimCLR's augmentations of whole batches, on the batch's device (Chen et al. 2020)."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn

from ident3d.training.views.choice import Augmentation
from ident3d.training.views.colours import ColourJitter


def augment_pair(images: Tensor, how: Augmentation, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return two independent views of each image: (N, C, S, S) in the unit range → twice the same shape and range.

    All draws come from `generator`, a CPU one; the global generators are left as they were.

    Args:
        images: In the unit range, as `Pixels.unit` gives them; (x - mean) / std comes after.
        how: What may happen to an image.
        generator: A CPU generator.

    Returns:
        The two views.

    Example:
        >>> import torch
        >>> from ident3d.views import augment_pair, augmentation
        >>> images = torch.rand(2, 3, 16, 16)
        >>> x, x_tilde = augment_pair(images, augmentation("simclr"), torch.Generator().manual_seed(0))
        >>> x.shape == x_tilde.shape == images.shape, torch.equal(x, x_tilde)
        (True, False)
    """
    with drawn_by(generator):
        steps, prepared = _steps(how, images.shape[-1]), in_colours(images)
        first, second = steps(prepared), steps(prepared)
        if how.rotate:
            turns = torch.randint(4, (len(images),))
            first, second = turn(first, turns), turn(second, turns + torch.randint(1, 4, (len(images),)))
    return first[:, : images.shape[1]], second[:, : images.shape[1]]


def augment(images: Tensor, how: Augmentation, generator: torch.Generator) -> Tensor:
    """Return one view of each image: (N, C, S, S) in the unit range → the same shape and range.

    All draws come from `generator`, a CPU one; the global generators are left as they were.

    Args:
        images: In the unit range, as `Pixels.unit` gives them; (x - mean) / std comes after.
        how: What may happen to an image.
        generator: A CPU generator.

    Returns:
        The views.

    Example:
        >>> import torch
        >>> from ident3d.views import augment, augmentation
        >>> images = torch.rand(2, 3, 16, 16)
        >>> view = augment(images, augmentation("blur"), torch.Generator().manual_seed(0))
        >>> view.shape == images.shape
        True
    """
    with drawn_by(generator):
        view: Tensor = _steps(how, images.shape[-1])(in_colours(images))
        if how.rotate:
            view = turn(view, torch.randint(4, (len(images),)))
    return view[:, : images.shape[1]]


@contextmanager
def drawn_by(generator: torch.Generator) -> Iterator[None]:
    """Seed the CPU's global generator from `generator` for the block, without gradients, and put it back."""
    seed = int(torch.randint(2**62, (), generator=generator))
    # kornia draws from the CPU's global generator, wherever the images are. It is seeded for these draws alone, so
    # that a resumed run augments as an uninterrupted one does.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        yield


def in_colours(images: Tensor) -> Tensor:
    """Return images with three channels, as kornia takes them."""
    # kornia before 0.9 cannot blur channels-last images.
    images = images.contiguous()
    # It knows the colours of three channels alone. Grey stays grey in all of its steps.
    return images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images


def turn(images: Tensor, quarters: Tensor) -> Tensor:
    """Turn each image (N, C, S, S) by its number (N,) of quarters of a circle: pixels move, none is resampled."""
    result = images.clone()
    for quarter in (1, 2, 3):
        chosen = (quarters % 4 == quarter).nonzero()[:, 0].to(images.device)
        result[chosen] = images[chosen].rot90(quarter, (2, 3))
    return result


@cache
def _steps(how: Augmentation, size: int) -> nn.Sequential:
    # Imported here because not everyone augments, under the name that its manual uses.
    import kornia.augmentation as K

    steps: list[nn.Module] = []
    if how.crop:
        # "resample" cuts out the whole batch at once.
        steps.append(K.RandomResizedCrop((size, size), how.crop, p=1.0, cropping_mode="resample"))
    if how.flip:
        steps.append(K.RandomHorizontalFlip(p=how.flip))
    if how.jitter:
        steps.append(ColourJitter(how))
    if how.grey:
        steps.append(K.RandomGrayscale(p=how.grey))
    if how.blur:
        # A tenth of the image, as in SimCLR, and odd.
        kernel = max(3, size // 10 | 1)
        steps.append(K.RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=how.blur))
    return nn.Sequential(*steps)
