"""``diagnose``: what augmentations do to a user's own images: overlap, the conditional's shape, a domain classifier."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import is_dataset, local_copy
from ident3d.loaders.format.files import write_json
from ident3d.metrics.pair_overlap import overlap
from ident3d.metrics.view_shapes import FEWEST, MOST, conditional_shape
from ident3d.training.diagnostics.domain import domain_accuracy
from ident3d.training.diagnostics.findings import Diagnosis
from ident3d.training.diagnostics.held_out import split_for
from ident3d.training.diagnostics.plots import conditional_picture, domain_picture, overlap_picture
from ident3d.training.diagnostics.seen_codes import chosen_codes, codes_of_pairs, codes_of_views, run_size
from ident3d.training.encoders.choice import check_image_size
from ident3d.training.images.run import Run
from ident3d.training.images.which_dataset import read_finished
from ident3d.training.loop.devices import circumstances, device_of
from ident3d.training.losses.choice import check_run_seed
from ident3d.training.views.choice import UNCHANGED, augmentation, check_colour

DIAGNOSIS_FILE: Final = "diagnosis.json"
BATCHES: Final = (64, 256, 1024)
# Images whose views show the conditional, and images whose overlap is looked at, whatever --n is: their pixels are
# held in memory, and more change no digit that matters.
SHOWN, OVERLAPPED = 50, 4096
FEWEST_IMAGES: Final = 40


def diagnose(
    directory: Path | str,
    augment: str = "simclr",
    *,
    run: Run | Path | str | None = None,
    test: Path | str | None = None,
    n: int | None = None,
    views: int = 300,
    steps: int = 500,
    batch: int = 128,
    size: int | None = None,
    out: Path | str | None = None,
    encoder: str | Callable[..., Any] | None = None,
    device: str = "auto",
    seed: int = 0,
    show_progress: bool = True,
) -> Diagnosis:
    """Say how much augmented pairs overlap, what their conditional looks like, and if views are told from originals.

    Overlap: the share of anchors whose nearest batch member is not their positive (`metrics.overlap`), pairs being two
    views of an image. Conditional: the codes of many views of one image, tested for normality
    (`metrics.conditional_shape`). Both are of the codes of `run`, such as a VAE, or else of ten principal components of
    the images. Domain: the held-out accuracy of a small network that is trained to tell views from images as they are.
    Theory assumes pairs that hardly overlap, a normal conditional, and views that nothing tells from originals. The
    figures and a picture of each are written into `out`.

    Args:
        directory: A dataset folder, or its address in a store.
        augment: simclr, crop-small, crop-medium, crop-large, colour, blur, rotation, joined by +.
        run: A run's folder, whose encoder gives the codes.
        test: A dataset folder that the classifier is scored on; by default the matching test set beside `directory`,
            or else a fifth of its images, which are then held out.
        n: Images that the classifier learns from, at most; by default all. Overlap and codes are of at most 4,096.
        views: Views of each of 50 images, whose codes show the conditional.
        steps: Steps of the classifier.
        batch: Images in a step.
        size: The width that images are averaged down to; by default that of the run, or as stored.
        out: A folder for the figures and pictures; by default DIR-diagnosis beside the dataset.
        encoder: A user's own encoder of the run, given or named as in training.
        device: "auto", "cpu", "cuda" or "mps".
        seed: What chooses images and draws views.
        show_progress: Show a progress bar.

    Returns:
        A `Diagnosis`, with a `table()`.

    Example:
        >>> import ident3d
        >>> found = ident3d.diagnose(test_set, "blur", views=20, steps=2, out="seen", device="cpu", show_progress=False)
        >>> len(found.shape.width), 0 <= found.domain.accuracy <= 1
        (10, True)
    """
    check_run_seed(seed)
    how = augmentation(augment)
    if augment == UNCHANGED:
        raise UserError(f"--augment {UNCHANGED} changes nothing, so there is nothing to diagnose.")
    if not FEWEST <= views <= MOST or steps < 1:
        raise UserError(f"--views is {FEWEST} to {MOST:,}, not {views}, and --steps at least 1, not {steps}.")
    if batch < 2:
        raise UserError(f"`batch` is at least 2, not {batch}.")
    folder, target = local_copy(directory), None if out is None else Path(out)
    description = read_finished(folder)
    images, where = ImageDataset(folder), device_of(device)
    check_colour(augment, images.shape[2])
    target = folder.resolve().with_name(f"{folder.resolve().name}-diagnosis") if target is None else target
    if is_dataset(target) or (target.exists() and not target.is_dir()):
        raise UserError(f"{target} is no folder for a diagnosis; name another by --out.")
    count = len(images) if n is None else min(n, len(images))
    if count < FEWEST_IMAGES:
        raise UserError(f"A diagnosis needs at least {FEWEST_IMAGES} images, not {count}.")
    trained_at = run_size(run)
    if size and trained_at not in (None, size):
        raise UserError(f"The run's images are {trained_at} pixels wide: leave --size {size} away.")
    width = images.size if size is None else size
    width = width if trained_at is None else trained_at
    if not 1 <= width <= images.size:
        raise UserError(f"The images are {images.size} pixels wide; --size makes them smaller, not {width}.")
    check_image_size("conv", width)
    numbers = np.random.default_rng(seed).permutation(len(images))[:count].astype(np.int64)
    split = split_for(folder, description, images, numbers, test, width, seed)
    looked_at = numbers[:OVERLAPPED]
    to_codes, name = chosen_codes(run, folder, encoder, images, looked_at, width, where)
    codes, pixels = codes_of_pairs(images, looked_at, how, width, to_codes, where, seed)
    sizes = [size for size in BATCHES if size <= len(looked_at)] or [len(looked_at)]
    seen = codes_of_views(images, numbers[:SHOWN], how, views, width, to_codes, where, seed)
    found = Diagnosis(
        data=folder,
        augment=augment,
        codes=name,
        overlaps={each: overlap(*codes, batch=each) for each in sizes},
        pixel_overlaps={each: overlap(*pixels, batch=each) for each in sizes},
        shape=conditional_shape(seen),
        domain=domain_accuracy(
            images, split.fit, split.images, split.held_out, how, steps=steps, batch=batch,
            size=width, device=where, seed=seed, show=show_progress,
        ),
        fitted=len(split.fit),
        held_out=len(split.held_out),
        test=split.test,
        settings={"views": views, "steps": steps, "batch": batch, "size": width, "seed": seed},
        out=target,
    )  # fmt: skip
    target.mkdir(parents=True, exist_ok=True)
    overlap_picture(found.overlaps, found.pixel_overlaps, target / "overlap.png")
    conditional_picture(seen, found.shape, target / "conditional.png")
    domain_picture(found.domain, target / "domain.png")
    write_json(target / DIAGNOSIS_FILE, found.as_dict() | {"facts": circumstances(where)})
    return found
