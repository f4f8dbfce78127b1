"""The data root, in which datasets and runs are found and written, and the disk space that an image needs."""

import os
from pathlib import Path

from ident3d.errors import UserError
from ident3d.loaders.stores.store import local_folder

ENVIRONMENT_VARIABLE = "IDENT3D_DATA"


def data_root(root: Path | str | None = None) -> Path:
    """Return `root` if given, else the folder named by IDENT3D_DATA, else ``./data``."""
    folder = local_folder(root or os.environ.get(ENVIRONMENT_VARIABLE) or "data").expanduser()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"The data root {folder} is not a folder.")
    return folder


def usual_image_bytes(size: int) -> float:
    """Return about how many bytes an image of this many pixels takes in a shard."""
    # Fitted to rendered datasets of 64 to 224 pixels.
    return float(6000 * (size / 64) ** 1.25)
