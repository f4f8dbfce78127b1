"""Which images are read out, which of them are augmented, and how well a linear classifier tells."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.metrics.classifiers import class_accuracy
from ident3d.training.diagnostics.features import Features

# Fewer would leave no half of them to tell from the other.
FEWEST = 8


class Chosen(NamedTuple):
    """Images of a folder by number (N,), their classes if they have any, and the half of them to augment."""

    images: ImageDataset
    numbers: NDArray[np.int64]
    classes: NDArray[np.int64] | None
    half: NDArray[np.bool_]


def choose(images: ImageDataset, count: int, seed: int) -> Chosen:
    """Return `count` images drawn without replacement, or all if there are no more, and a random half of them."""
    if min(count, len(images)) < FEWEST:
        raise UserError(f"A read-out needs at least {FEWEST} images, not {min(count, len(images))}.")
    draws = np.random.default_rng(seed)
    numbers = draws.permutation(len(images))[:count].astype(np.int64)
    classes = images.all_latents()[1]
    half = draws.permutation(len(numbers)) < len(numbers) // 2
    return Chosen(images, numbers, None if classes is None else classes[numbers].astype(np.int64), half)


def as_fitted(fitted: Chosen, scored: Chosen) -> Chosen:
    """Return the scored images with their classes numbered as those fitted on, which is by name.

    Raise UserError for a class that is not fitted on.
    """
    here, there = scored.images.world, fitted.images.world
    if scored.classes is None or fitted.classes is None:
        return scored
    # Scenes number their classes alike in all folders. A folder of pictures numbers those that it has.
    if not (isinstance(here, Factors) and isinstance(there, Factors)):
        return scored
    numbers = np.array([there.classes.index(name) if name in there.classes else -1 for name in here.classes], np.int64)
    renumbered = numbers[scored.classes]
    if (renumbered < 0).any():
        name = here.classes[scored.classes[renumbered < 0][0]]
        where = scored.images.parts[0].folder.address
        raise UserError(f"{where} has images of the class {name}, which the read-out is not fitted on.")
    return scored._replace(classes=renumbered)


def told_apart(fitted: ArrayLike, features: Features, scored: ArrayLike, others: Features) -> tuple[float, float]:
    """Return the accuracy of logistic regression to these labels on the scored rows, of backbone and of codes."""
    first, second = (
        float(class_accuracy(fitted, fit, test=(scored, score))) for fit, score in zip(features, others, strict=True)
    )
    return first, second
