"""Importing KITTI Masks: silhouettes of pedestrians in videos, from the published pickle or the annotations."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.factor import Factor
from ident3d.latents.factors import Factors
from ident3d.loaders.format.pickled_arrays import Refused
from ident3d.loaders.format.plain_pickle import read_plain_pickle
from ident3d.loaders.layouts.array_table import table_of
from ident3d.loaders.layouts.arrays import settings_of, write_images
from ident3d.loaders.layouts.kitti_annotations import SIZE, Masks, masks_in
from ident3d.loaders.layouts.pictures import Imported
from ident3d.loaders.layouts.pixel_blocks import ArrayImages
from ident3d.machine import cores

# What a mask can have at all, whatever occurs: sets of other sequences have the same declaration.
FACTORS: Final = Factors(
    (
        Factor("row", range=(0, SIZE - 1), group="position"),
        Factor("column", range=(0, SIZE - 1), group="position"),
        Factor("area", range=(0, SIZE**2)),
    )
)
SEQUENCES, FRAMES = 2_120, 84_626
MASKS, LATENTS = "pedestrians", "pedestrians_latents"
# The published latents are float32 means of whole numbers up to 63.
TOLERANCE: Final = 1e-3
CHUNK_IMAGES: Final = 32
ORIGIN: Final = {
    "name": "KITTI Masks",
    "source": "masks of pedestrians in KITTI-MOTS and MOTSChallenge",
    "licence": "CC BY-NC-SA 3.0",
    "citation": "Klindt, Schott, Sharma, Ustyuzhaninov, Brendel, Bethge, Paiton: Towards Nonlinear Disentanglement in "
    "Natural Data with Temporal Sparse Coding, ICLR 2021; Voigtlaender et al.: MOTS: Multi-Object Tracking and "
    "Segmentation, CVPR 2019",
}


class Frames:
    """The frames of all sequences, one after the other, as one array that is put together where it is read."""

    def __init__(self, sequences: Sequence[Masks]) -> None:
        self.sequences = sequences
        self.ends = np.cumsum([len(masks) for masks in sequences])
        self.shape = (int(self.ends[-1]), SIZE, SIZE)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Masks:
        first, stop, _ = rows.indices(len(self))
        k = int(np.searchsorted(self.ends, first, side="right"))
        parts = []
        while first < stop:
            begins = int(self.ends[k]) - len(self.sequences[k])
            parts.append(self.sequences[k][first - begins : stop - begins])
            first, k = int(self.ends[k]), k + 1
        return np.concatenate(parts) if parts else np.empty((0, SIZE, SIZE), np.bool_)


def import_kitti_masks(
    places: Sequence[Path],
    out: Path,
    *,
    split: str | None,
    licence: str | None,
    citation: str | None,
    workers: int | None,
    shard_size: int | None,
    show_progress: bool,
) -> Imported:
    """Make a dataset folder from the published pickle, or from the two sets of annotations that it was made of.

    Each image has a `sequence` and, in it, a `frame`, both from 0. Latents are the centre's row and column, and the
    area in pixels.
    """
    started = datetime.now(UTC)
    masks = masks_of_pickle(places[0]) if len(places) == 1 and places[0].is_file() else masks_in(places, show_progress)
    frames, lengths = Frames(masks), [len(each) for each in masks]
    columns = {
        "sequence": np.repeat(np.arange(len(masks)), lengths),
        "frame": np.concatenate([np.arange(length) for length in lengths]),
    }
    values = np.concatenate([latents_of(each) for each in masks])
    table, declared = table_of(values, None, None, FACTORS, None, None, columns)
    pixels = ArrayImages(frames, unit=False)
    settings = settings_of(pixels, table, declared, split or "train", show_progress)
    settings["source"] |= {"layout": "kitti-masks", "from": " and ".join(place.name for place in places)}
    settings["images_per_chunk"] = CHUNK_IMAGES
    given = {name: text for name, text in {"licence": licence, "citation": citation}.items() if text}
    settings["origin"] = ORIGIN | given
    made = write_images(pixels, table, settings, out, shard_size, workers or cores(), show_progress, started)
    if (len(masks), len(frames)) != (SEQUENCES, FRAMES):
        warnings.warn(
            f"These are {len(masks):,} sequences of {len(frames):,} frames; the published data have {SEQUENCES:,} and "
            f"{FRAMES:,}.",
            stacklevel=3,
        )
    return made


def latents_of(masks: Masks) -> NDArray[np.float64]:
    """Return row and column of the centre of mass, and the number of pixels, of each frame (n, 3)."""
    area = masks.sum((1, 2))
    place = np.arange(SIZE)
    return np.column_stack([masks.sum(2) @ place / area, masks.sum(1) @ place / area, area])


def masks_of_pickle(path: Path) -> list[Masks]:
    """Return the sequences of the published pickle, each (n, 64, 64), checked against the latents in it."""
    with as_sentence(path):
        content = read_plain_pickle(path)
        if not isinstance(content, dict) or not {MASKS, LATENTS} <= set(content):
            raise Refused(f"it is no dict with {MASKS} and {LATENTS}")
        masks, latents = content[MASKS], content[LATENTS]
        if not (isinstance(masks, list) and isinstance(latents, list) and len(masks) == len(latents) > 0):
            raise Refused(f"{MASKS} and {LATENTS} are no lists of equal length")
        # A pickle may name one array many times: a small file would become a long import.
        if sum(each.nbytes for each in masks if isinstance(each, np.ndarray)) > path.stat().st_size:
            raise Refused(f"{MASKS} have more frames than the file has room for")
        for number, (frames, rows) in enumerate(zip(masks, latents, strict=True)):
            check_sequence(number, frames, rows)
    return masks


def check_sequence(number: int, frames: Any, rows: Any) -> None:
    """Refuse a sequence that is not of masks, or whose latents are not those of its masks."""
    if not all(isinstance(array, np.ndarray) for array in (frames, rows)):
        raise Refused(f"sequence {number} is no array")
    shape = (len(frames), SIZE, SIZE) if frames.ndim else ()
    if frames.dtype != np.bool_ or frames.shape != shape or rows.shape != (len(frames), 3) or not len(frames):
        raise Refused(f"sequence {number} has masks of {frames.dtype} {frames.shape}, and latents {rows.shape}")
    # An array that is cast as truth values may hold any byte.
    if frames.view(np.uint8).max() > 1 or not frames.any((1, 2)).all():
        raise Refused(f"sequence {number} has an empty frame, or one that is not of truth values")
    far = np.abs(latents_of(frames) - rows.astype(np.float64)).max(1)
    if len(bad := np.flatnonzero(~(far <= TOLERANCE))):
        raise Refused(f"the latents of frame {bad[0]} of sequence {number} are not those of its mask")


@contextmanager
def as_sentence(path: Path) -> Iterator[None]:
    """Turn a refusal into a sentence about this file."""
    try:
        yield
    except Refused as error:
        raise UserError(f"{path} is not the published KITTI Masks: {error}.") from None
