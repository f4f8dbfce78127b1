"""SimCLR's augmentations of whole batches, on the batch's device (Chen et al. 2020); a setting for each step."""

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn

from ident3d.errors import UserError, unknown


@dataclass(frozen=True)
class Augmentation:
    """What may happen to an image; the defaults are SimCLR's. None or 0 leaves a step out.

    crop: the share of the area that a random crop keeps, from … to, resized to the image's size.
    flip: probability of a mirror image.
    jitter: strengths of brightness, contrast, saturation and hue; applied with probability `jitter_probability`.
    grey, blur: probabilities. rotate: a pair's two views are turned by two different multiples of 90°.
    """

    crop: tuple[float, float] | None = (0.08, 1.0)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] | None = (0.8, 0.8, 0.8, 0.2)
    jitter_probability: float = 0.8
    grey: float = 0.2
    blur: float = 0.5
    rotate: bool = False

    def __post_init__(self) -> None:
        for name in ("flip", "jitter_probability", "grey", "blur"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"The augmentation's {name} is a probability, not {getattr(self, name):g}.")
        if self.crop is not None and not 0 < self.crop[0] <= self.crop[1] <= 1:
            raise UserError(f"A crop keeps between 0 and all of the area, not {self.crop[0]:g} to {self.crop[1]:g}.")


def augment_pair(images: Tensor, how: Augmentation, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two independent views of each image: (N, 3, S, S) in the unit range → twice the same shape and range.

    All draws come from `generator`, a CPU one; the global generators are left as they were.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    # kornia draws from the CPU's global generator, wherever the images are
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        steps = _steps(how, images.shape[-1])
        images = images.contiguous()  # kornia before 0.9 blurs no channels-last images
        first, second = steps(images), steps(images)
        if how.rotate:
            turns = torch.randint(4, (len(images),))
            first, second = turned(first, turns), turned(second, turns + torch.randint(1, 4, (len(images),)))
    return first, second


def turned(images: Tensor, quarters: Tensor) -> Tensor:
    """Each image (N, C, S, S) turned by its number (N,) of quarters of a circle: pixels move, none is resampled."""
    result = images.clone()
    for quarter in (1, 2, 3):
        chosen = (quarters % 4 == quarter).nonzero()[:, 0].to(images.device)
        result[chosen] = images[chosen].rot90(quarter, (2, 3))
    return result


@cache
def _steps(how: Augmentation, size: int) -> nn.Sequential:
    import kornia.augmentation as K  # as its manual calls it; imported here because not everyone augments

    steps: list[nn.Module] = []
    if how.crop:
        # "resample" cuts out the whole batch at once
        steps.append(K.RandomResizedCrop((size, size), how.crop, p=1.0, cropping_mode="resample"))
    if how.flip:
        steps.append(K.RandomHorizontalFlip(p=how.flip))
    if how.jitter:
        steps.append(K.ColorJitter(*how.jitter, p=how.jitter_probability))
    if how.grey:
        steps.append(K.RandomGrayscale(p=how.grey))
    if how.blur:
        kernel = max(3, size // 10 | 1)  # a tenth of the image, odd
        steps.append(K.RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=how.blur))
    return nn.Sequential(*steps)


NOTHING = Augmentation(crop=None, flip=0, jitter=None, grey=0, blur=0)
NAMES = ("simclr", "crop-small", "crop-large", "colour", "rotation")


def augmentation(names: str) -> Augmentation:
    """simclr is all that SimCLR does; crop-small keeps 8 to 100 % of the area and crop-large 80 to 100 %, both flip."""
    how = NOTHING
    for name in names.split("+"):
        if name == "simclr":
            how = replace(Augmentation(), rotate=how.rotate)
        elif name in ("crop-small", "crop-large"):
            how = replace(how, crop=(0.08 if name == "crop-small" else 0.8, 1.0), flip=0.5)
        elif name == "colour":
            how = replace(how, jitter=Augmentation.jitter, grey=Augmentation.grey)
        elif name == "rotation":
            how = replace(how, rotate=True)
        else:
            raise unknown("augmentation", name, NAMES)
    return how
