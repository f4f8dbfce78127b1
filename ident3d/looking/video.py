"""``export_video``: sequences as moving pictures, one file each, or some of them side by side."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.errors import UserError, check_known
from ident3d.loaders.cards.contact_sheet import check_picture_path, contact_sheet, picture_of
from ident3d.loaders.datasets.frames import frames_by_sequence
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.exports.exporting import MARK, Exported, begin_export
from ident3d.loaders.format.files import atomic_file, remove_partial_files, write_atomically
from ident3d.loaders.format.inside import remove
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.store import local_folder
from ident3d.progress import progress_bar

KINDS: Final = ("gif", "webp")
# Sequences of one picture.
SIDE_BY_SIDE: Final = 16
# Pictures a second that formats and viewers keep to.
FPS: Final = (0.1, 50.0)


def export_video(
    path: Path | str,
    out: Path | str,
    *,
    kind: str = "gif",
    fps: float = 10.0,
    count: int | None = None,
    show_progress: bool = True,
) -> Exported:
    """Write each sequence of a dataset as a moving picture, or some of them side by side.

    A GIF has 256 colours; a WebP shows every pixel as it is stored. An interrupted export continues where it stopped.

    Args:
        path: The dataset folder, or its address in a store.
        out: A new folder, for a file each; or a name that ends with .gif or .webp, for one picture of them all.
        kind: "gif" or "webp".
        fps: Frames a second.
        count: How many sequences, from the first on; by default all, and 16 side by side.
        show_progress: Show a progress bar.

    Returns:
        An `Exported`: where, the number of images, and how many files were written now.

    Example:
        >>> import ident3d, numpy as np
        >>> images, columns = np.zeros((6, 8, 8), np.uint8), {"sequence": [0, 0, 0, 1, 1, 1]}
        >>> _ = ident3d.from_arrays(images, np.arange(6)[:, None], "moving", columns=columns, show_progress=False)
        >>> ident3d.export_video("moving", "pictures", kind="webp", show_progress=False).written
        2
    """
    check_known("kind of moving picture", kind, KINDS)
    if not FPS[0] <= fps <= FPS[1]:
        raise UserError(f"Between {FPS[0]:g} and {FPS[1]:g} frames a second are shown, not {fps:g}.")
    if count is not None and count < 1:
        raise UserError(f"At least one sequence is shown, not {count}.")
    images, place = ImageDataset(path), Path(out)
    sequences = frames_by_sequence(images)
    if place.suffix.lower() in {f".{known}" for known in KINDS}:
        if place.suffix.lower() != f".{kind}":
            raise UserError(f"{place} does not have the ending .{kind}.")
        check_picture_path(place)
        shown = sequences[: count or SIDE_BY_SIDE]
        write_atomically(place, moving(side_by_side(images, shown), kind, fps))
        return Exported(place, sum(map(len, shown)), 1)
    place = local_folder(out)
    # Files of an interrupted export stay: the others must be of the same kind, speed and images.
    begin_export(images.parts[0].folder, place, kind=kind, fps=fps, images=len(images))
    written, digits = 0, len(str(max(1, len(sequences) - 1)))
    with lease(place), progress_bar(len(sequences[:count]), "sequences", show=show_progress) as bar:
        for number, frames in enumerate(sequences[:count]):
            file = place / f"{number:0{digits}d}.{kind}"
            if not file.exists():
                content = moving([picture_of(image) for image in images.images(frames)], kind, fps)
                with atomic_file(file, within=place, sync=False) as opened:
                    opened.write(content)
                written += 1
            bar.update(1)
        remove_partial_files(place, keep=MARK)
    # The mark goes last: until then the export can be continued.
    remove(place, MARK)
    return Exported(place, sum(map(len, sequences[:count])), written)


def side_by_side(images: ImageDataset, sequences: Sequence[NDArray[np.int64]]) -> list[Image.Image]:
    """Return contact sheets of the sequences, frame by frame; one that has ended shows its last frame."""
    columns = int(np.ceil(np.sqrt(len(sequences))))
    return [
        contact_sheet(list(images.images([frames[min(k, len(frames) - 1)] for frames in sequences])), columns)
        for k in range(max(map(len, sequences)))
    ]


def moving(pictures: Sequence[Image.Image], kind: str, fps: float) -> bytes:
    """Return a moving picture, which begins again at its end, as the bytes of a file."""
    buffer = io.BytesIO()
    given: dict[str, Any] = {"save_all": True, "append_images": pictures[1:], "duration": round(1000 / fps), "loop": 0}
    if kind == "webp":
        given |= {"lossless": True, "exact": True}
    pictures[0].save(buffer, kind, **given)
    return buffer.getvalue()
