"""A run's features of images as they are or augmented: those of the backbone, and the codes behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.memory import keep_memory
from ident3d.progress import progress_bar
from ident3d.training.encoders.image_encoder import Encoder
from ident3d.training.images.run import Run
from ident3d.training.loop.devices import device_of, on_device
from ident3d.training.loop.dtype import autocast
from ident3d.training.views.augmentations import augment
from ident3d.training.views.choice import Augmentation

# Images that go through the encoder at once.
BATCH = 256


class Features(NamedTuple):
    """Features of the same images: of the backbone (N, k), and codes (N, d)."""

    backbone: NDArray[np.float32]
    codes: NDArray[np.float32]


def features_of(
    run: Run,
    model: Encoder,
    images: ImageDataset,
    numbers: NDArray[np.int64],
    *,
    how: Augmentation | None = None,
    which: NDArray[np.bool_] | None = None,
    seed: int = 0,
    device: str = "auto",
    show: bool = True,
) -> Features:
    """Return a trained run's features of images by number, those of `which` (N,) augmented by `how`.

    Features of the backbone are what its last linear layer gets, or with a projector what the projector gets.
    """
    keep_memory()
    where, generator = device_of(device), torch.Generator().manual_seed(seed)
    # A run on a GPU may have used fp16, which a CPU does not score in.
    dtype = run.dtype if where.type != "cpu" or run.dtype != "fp16" else "fp32"
    model = on_device(model, where).eval()
    backbone, codes = [], []
    with progress_bar(len(numbers), "images", show=show) as bar, torch.inference_mode(), caught(model) as features:
        for rows in np.array_split(np.arange(len(numbers)), max(1, round(len(numbers) / BATCH))):
            pixels = run.pixels.unit(images.batch(numbers[rows])[1], where)
            if how is not None and which is not None and which[rows].any():
                chosen = torch.from_numpy(np.flatnonzero(which[rows])).to(where)
                pixels[chosen] = augment(pixels[chosen], how, generator)
            with autocast(dtype, where):
                codes.append(model(run.pixels.normalise(pixels)).float().cpu().numpy())
            backbone.append(features.pop().float().flatten(1).cpu().numpy())
            features.clear()
            bar.update(len(rows))
    found = Features(np.concatenate(backbone), np.concatenate(codes))
    if not all(np.isfinite(part).all() for part in found):
        raise UserError(f"The encoder of {run.path} gives features that are no numbers.")
    return found


@contextmanager
def caught(model: Encoder) -> Iterator[list[Tensor]]:
    """Fill a list with the backbone's features, each time that the model is called in the block."""
    found: list[Tensor] = []
    linear = [layer for layer in model.backbone.modules() if isinstance(layer, nn.Linear)]
    if linear and not model.projected:
        hook = linear[-1].register_forward_pre_hook(lambda _, given: found.append(given[0]))
    else:

        def keep(_module: nn.Module, _given: Any, features: Tensor) -> None:
            found.append(features)

        hook = model.backbone.register_forward_hook(keep)
    try:
        yield found
    finally:
        hook.remove()
