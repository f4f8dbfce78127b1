"""Which images are the frames of which sequence, or the views of which z, in order."""

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset


def frames_by_sequence(images: ImageDataset) -> list[NDArray[np.int64]]:
    """Return the numbers of the images of each sequence in the order of its frames, or of each instance and its views.

    Without a column of frames or views they are in the order of the folder.
    """
    if len(images.parts) > 1:
        raise UserError("The sequences of one folder are shown, not those of several.")
    whole, part = ("instance", "view") if "instance" in images.columns else ("sequence", "frame")
    if whole not in images.columns:
        raise UserError(
            f"The images of {images.parts[0].path} have no sequences or views: `ident3d render --sequence` or "
            "--views makes some."
        )
    sequence = images.column(whole)
    frame = images.column(part) if part in images.columns else np.arange(len(sequence))
    order = np.lexsort((frame, sequence)).astype(np.int64)
    return np.split(order, 1 + np.flatnonzero(np.diff(sequence[order])))
