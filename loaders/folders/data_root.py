"""The data root: the folder below which datasets and runs are looked for and written."""

import os
from pathlib import Path

from ident3d.errors import UserError
from ident3d.loaders.stores.store import local_folder

ENVIRONMENT_VARIABLE = "IDENT3D_DATA"


def data_root(root: Path | str | None = None) -> Path:
    """`root` if given, else the folder named by IDENT3D_DATA, else ``./data``."""
    folder = local_folder(root or os.environ.get(ENVIRONMENT_VARIABLE) or "data").expanduser()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"The data root {folder} is not a folder.")
    return folder
