"""Which images a domain classifier learns from, and which it is scored on."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import local_copy
from ident3d.loaders.format.description import Description
from ident3d.training.images.which_dataset import is_trained_on, matching_test_set, read_finished

# The share that is held out where there is no test set, and how many images are scored, at least and at most.
HELD_OUT = 0.2
FEWEST, MOST = 8, 10_000


class Split(NamedTuple):
    """Numbers `fit` to learn from, and numbers `held_out` of `images` to score on: those of `test`, if there is one."""

    fit: NDArray[np.int64]
    images: ImageDataset
    held_out: NDArray[np.int64]
    test: Path | None


def split_for(
    folder: Path,
    description: Description,
    images: ImageDataset,
    numbers: NDArray[np.int64],
    test: Path | str | None,
    width: int,
    seed: int,
) -> Split:
    """Return all numbers to learn from and those of the test set, given or found, or else a fifth held out of them."""
    path = find_test_set(folder, description, images, width) if test is None else local_copy(test)
    if path is None:
        count = round((1 - HELD_OUT) * len(numbers))
        return Split(numbers[:count], images, numbers[count:][:MOST], None)
    other = read_finished(path)
    if path.resolve() == folder.resolve() or is_trained_on(description.settings, other):
        raise UserError(f"{path} holds the images that the classifier learns from; name others by --test.")
    others = ImageDataset(path)
    if others.shape[2] != images.shape[2] or others.size < width:
        here, there = (f"{each.size} pixels wide with {each.shape[2]} channels" for each in (others, images))
        raise UserError(f"{path} does not fit {folder}: its images are {here}, the others {there}.")
    if len(others) < FEWEST:
        raise UserError(f"{path} holds {len(others)} images; a score needs at least {FEWEST}.")
    held_out = np.random.default_rng(seed + 1).permutation(len(others))[:MOST].astype(np.int64)
    return Split(numbers, others, held_out, path)


def find_test_set(folder: Path, description: Description, images: ImageDataset, width: int) -> Path | None:
    """Return the matching test set beside a folder, unless it is the folder itself, holds its images or does not fit.

    Of images without latents and classes nothing says that others belong to them.
    """
    if not images.names and not images.factors.classes:
        return None
    found = matching_test_set(description.settings, (folder.resolve().parent,))
    if found is None or found.resolve() == folder.resolve():
        return None
    other = read_finished(found)
    channels = other.settings.get("channels", 3)
    fits = other.n >= FEWEST and channels == images.shape[2] and other.settings["size"] >= width
    return found if fits and not is_trained_on(description.settings, other) else None
