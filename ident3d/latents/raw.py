"""Raw latents from elsewhere."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ident3d.errors import UserError


def check_raw(raw: ArrayLike, names: Sequence[str], of: str) -> NDArray[np.float32]:
    """Return raw latents (images, names) as float32; raise UserError for the first thing that is wrong with them."""
    raw = np.asarray(raw)
    if raw.ndim != 2 or raw.shape[1] != len(names):
        raise UserError(f"Raw latents of {of} have the shape (images, {len(names)}), not {raw.shape}.")
    if raw.dtype.kind not in "fiu":
        raise UserError(f"Raw latents are real numbers, not of the type {raw.dtype}.")
    # Written as a negation, so that NaN counts as outside too.
    if len(bad := np.argwhere(~(np.abs(raw) <= 1))):
        row, k = bad[0]
        raise UserError(f"Raw latents lie in [-1, 1], but {names[k]} of image {row} is {raw[row, k]:g}.")
    return raw.astype(np.float32)
