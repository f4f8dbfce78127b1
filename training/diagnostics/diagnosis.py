"""``diagnose``: what augmentations do to a user's own images: overlap, the conditional's shape, a domain classifier."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import is_dataset, local_copy
from ident3d.loaders.format.files import write_json
from ident3d.metrics.pair_overlap import Overlap, overlap
from ident3d.metrics.result import plain
from ident3d.metrics.view_shapes import FEWEST, ConditionalShape, conditional_shape
from ident3d.training.diagnostics.domain import DomainAccuracy, domain_accuracy
from ident3d.training.diagnostics.plots import conditional_picture, domain_picture, overlap_picture
from ident3d.training.diagnostics.seen_codes import ToCodes, codes_by_components, codes_by_run, rows_of, unit_images
from ident3d.training.encoders.choice import check_image_size
from ident3d.training.images.run import Run, open_run
from ident3d.training.images.which_dataset import read_finished
from ident3d.training.loop.devices import device_of
from ident3d.training.losses.choice import check_run_seed
from ident3d.training.views.augmentations import augment as view_of
from ident3d.training.views.augmentations import augment_pair
from ident3d.training.views.choice import UNCHANGED, Augmentation, augmentation, check_colour

DIAGNOSIS_FILE: Final = "diagnosis.json"
BATCHES: Final = (64, 256, 1024)
# Images whose views show the conditional, and the share of all that the classifier is scored on.
SHOWN, HELD_OUT = 50, 0.2
FEWEST_IMAGES: Final = 40


@dataclass(frozen=True)
class Diagnosis:
    """What augmentations do to the images of a folder.

    `overlaps` are of codes by batch size, `pixel_overlaps` of the pixels themselves; `shape` is that of the codes of
    views of one image. The codes are `codes`.
    """

    data: Path
    augment: str
    codes: str
    overlaps: dict[int, Overlap]
    pixel_overlaps: dict[int, Overlap]
    shape: ConditionalShape
    domain: DomainAccuracy
    held_out: int
    out: Path

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers, lists and strings, as on disk."""
        return {
            "data": str(self.data),
            "augment": self.augment,
            "codes": self.codes,
            "overlap": {str(batch): found.score for batch, found in self.overlaps.items()},
            "overlap_of_pixels": {str(batch): found.score for batch, found in self.pixel_overlaps.items()},
            "conditional": plain(self.shape.as_dict()),
            "domain_accuracy": self.domain.accuracy,
            "domain_steps": self.domain.steps,
            "held_out": self.held_out,
            "out": str(self.out),
        }

    def table(self) -> str:
        shape, rows = self.shape, list[Sequence[str]]()
        rows += [
            (
                f"overlap in batches of {batch}",
                f"{float(found):.4f}",
                f"{float(self.pixel_overlaps[batch]):.4f} in pixels",
            )
            for batch, found in self.overlaps.items()
        ]
        rows += [
            ("conditional not normal", f"{float(shape):.4f}", "0.05 if it is normal"),
            ("conditional of two peaks", f"{np.nanmean(shape.two_peaks):.4f}", "about 0 if it has one"),
            (
                "views told from originals",
                f"{self.domain.accuracy:.4f}",
                f"0.5 by chance; {self.held_out:,} images held out",
            ),
        ]
        by_code = [
            (
                f"h{k}",
                *(f"{values[k]:.3f}" for values in (shape.not_normal, shape.two_peaks, shape.width, shape.across)),
            )
            for k in range(len(shape.width))
        ]
        heads = ["code", "not normal", "two peaks", "width in views", "width across images"]
        first = tabulate(rows, ["augmentations: " + self.augment, "", ""], disable_numparse=True)
        second = tabulate(by_code, heads, disable_numparse=True)
        return f"{self.data}, codes: {self.codes}\n\n{first}\n\n{second}\n\nPictures: {self.out}"


def diagnose(
    directory: Path | str,
    augment: str = "simclr",
    *,
    run: Run | Path | str | None = None,
    n: int = 4096,
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
        n: Images to look at, at most.
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
    if views < FEWEST or steps < 1 or batch < 2:
        raise UserError(f"--views is at least {FEWEST}, --steps at least 1 and --batch at least 2.")
    folder, target = local_copy(directory), None if out is None else Path(out)
    read_finished(folder)
    images, where = ImageDataset(folder), device_of(device)
    check_colour(augment, images.shape[2])
    target = folder.resolve().with_name(f"{folder.resolve().name}-diagnosis") if target is None else target
    if is_dataset(target) or (target.exists() and not target.is_dir()):
        raise UserError(f"{target} is no folder for a diagnosis; name another by --out.")
    if min(n, len(images)) < FEWEST_IMAGES:
        raise UserError(f"A diagnosis needs at least {FEWEST_IMAGES} images, not {min(n, len(images))}.")
    trained_at = run_size(run)
    if size and trained_at not in (None, size):
        raise UserError(f"The run's images are {trained_at} pixels wide: leave --size {size} away.")
    width = images.size if size is None else size
    width = width if trained_at is None else trained_at
    if not 1 <= width <= images.size:
        raise UserError(f"The images are {images.size} pixels wide; --size makes them smaller, not {width}.")
    check_image_size("conv", width)
    numbers = np.random.default_rng(seed).permutation(len(images))[:n].astype(np.int64)
    to_codes, name = chosen_codes(run, folder, encoder, images, numbers, width, where)
    codes, pixels = codes_of_pairs(images, numbers, how, width, to_codes, where, seed)
    sizes = [size for size in BATCHES if size <= len(numbers)] or [len(numbers)]
    count = round((1 - HELD_OUT) * len(numbers))
    fit, held_out = numbers[:count], numbers[count:]
    seen = codes_of_views(images, numbers[:SHOWN], how, views, width, to_codes, where, seed)
    found = Diagnosis(
        data=folder,
        augment=augment,
        codes=name,
        overlaps={each: overlap(*codes, batch=each) for each in sizes},
        pixel_overlaps={each: overlap(*pixels, batch=each) for each in sizes},
        shape=conditional_shape(seen),
        domain=domain_accuracy(
            images, fit, held_out, how, steps=steps, batch=batch,
            size=width, device=where, seed=seed, show=show_progress,
        ),
        held_out=len(held_out),
        out=target,
    )  # fmt: skip
    target.mkdir(parents=True, exist_ok=True)
    overlap_picture(found.overlaps, found.pixel_overlaps, target / "overlap.png")
    conditional_picture(seen, found.shape, target / "conditional.png")
    domain_picture(found.domain, target / "domain.png")
    write_json(target / DIAGNOSIS_FILE, found.as_dict())
    return found


def run_size(run: Run | Path | str | None) -> int | None:
    """Return the width of the images that a run's encoder was trained on."""
    opened = open_run(run) if isinstance(run, Path | str) else run
    return None if opened is None else opened.settings.size


def chosen_codes(
    run: Run | Path | str | None, folder: Path, own: Any, images: ImageDataset, numbers: NDArray[np.int64], width: int,
    device: torch.device,
) -> tuple[ToCodes, str]:  # fmt: skip
    """Return what makes codes of images, and what these are called."""
    if run is not None:
        return codes_by_run(run, folder, own, device), f"of the run {run.path if isinstance(run, Run) else run}"
    some = torch.cat([unit_images(images, part, width, device) for part in in_parts(numbers[:1024])])
    return codes_by_components(some), "principal components of the pixels"


def in_parts(numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the numbers in parts of at most 256."""
    return list(np.array_split(numbers, -(-len(numbers) // 256)))


def codes_of_pairs(
    images: ImageDataset, numbers: NDArray[np.int64], how: Augmentation, width: int, to_codes: ToCodes,
    device: torch.device, seed: int,
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:  # fmt: skip
    """Return the codes of two views of each image, each (N, d), and the pixels of both, averaged down."""
    generator = torch.Generator().manual_seed(seed)
    codes: tuple[list[NDArray[Any]], ...] = ([], [])
    pixels: tuple[list[NDArray[Any]], ...] = ([], [])
    for some in in_parts(numbers):
        for k, view in enumerate(augment_pair(unit_images(images, some, width, device), how, generator)):
            codes[k].append(to_codes(view))
            pixels[k].append(rows_of(view).float().numpy())
    return [np.concatenate(each) for each in codes], [np.concatenate(each) for each in pixels]


def codes_of_views(
    images: ImageDataset, numbers: NDArray[np.int64], how: Augmentation, views: int, width: int, to_codes: ToCodes,
    device: torch.device, seed: int,
) -> NDArray[np.float32]:  # fmt: skip
    """Return the codes of so many views of each image (images, views, d)."""
    generator = torch.Generator().manual_seed(seed + 1)
    some = unit_images(images, numbers, width, device)
    return np.stack([to_codes(view_of(image.expand(views, -1, -1, -1), how, generator)) for image in some])
