"""Which images of a dataset a page shows: an even sample that has the distribution of the whole."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ident3d.loaders.datasets.image_dataset import ImageDataset

Numbers = NDArray[np.int64]
# What images are shown together by, and the place of each among them.
TOGETHER: Final = {"sequence": "frame", "instance": "view"}


def choose_images(images: ImageDataset, latents: NDArray[np.float32], count: int) -> Numbers:
    """Return the numbers of about `count` images in order: all if there are no more, whole sequences or
    instances if there are any.

    `latents` (n, d) are those that the images are spread by.
    """
    if len(images) <= count:
        return np.arange(len(images))
    which = next((name for name in TOGETHER if name in images.columns), None)
    if which is None:
        return stratified(latents, count)
    groups = members(images, which)
    first = latents[[numbers[0] for numbers in groups]]
    # As many as fit if they are of usual length.
    chosen = np.random.default_rng(0).permutation(stratified(first, max(1, count * len(groups) // len(images))))
    taken, room = list[Numbers](), count
    for k in chosen:
        if len(groups[k]) <= room:
            taken.append(groups[k])
            room -= len(groups[k])
    # A single sequence may be longer than the page.
    return np.sort(np.concatenate(taken) if taken else groups[chosen[0]][:count])


def members(images: ImageDataset, which: str) -> list[Numbers]:
    """Return the numbers of the images of each sequence or instance, in the order of its frames or views."""
    group, place = images.column(which), np.arange(len(images))
    if TOGETHER[which] in images.columns:
        place = images.column(TOGETHER[which])
    order = np.lexsort((place, group)).astype(np.int64)
    return np.split(order, 1 + np.flatnonzero(np.diff(group[order])))


def stratified(latents: NDArray[np.float32], count: int, seed: int = 0) -> Numbers:
    """Return `count` row numbers of latents (n, d), one of each cell of a partition into cells of equal numbers.

    Cells are halved again and again, across the latent that is widest in them, and a row of each is drawn. So the rows
    lie more evenly than independent draws, and each latent is distributed as in the whole.
    """
    rng = np.random.default_rng(seed)
    # Rows of equal latents, as on a grid, are shared out at random, and not by their place in the folder.
    cells: list[tuple[Numbers, int]] = [(rng.permutation(len(latents)), min(count, len(latents)))]
    chosen: list[int] = []
    while cells:
        rows, wanted = cells.pop()
        if wanted == 1:
            chosen.append(int(rows[rng.integers(len(rows))]))
        elif wanted > 1:
            part = wanted // 2
            rows = along_the_widest(latents, rows)
            end = round(len(rows) * part / wanted)
            cells += [(rows[:end], part), (rows[end:], wanted - part)]
    return np.sort(np.array(chosen, np.int64))


def along_the_widest(latents: NDArray[np.float32], rows: Numbers) -> Numbers:
    """Return the rows in the order of the latent that is widest among them."""
    if not latents.shape[1]:
        return rows
    here = latents[rows]
    k = int(np.argmax(here.max(0) - here.min(0)))
    ordered: Numbers = rows[np.argsort(here[:, k], kind="stable")]
    return ordered
