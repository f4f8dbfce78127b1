"""The data root: the folder below which datasets and runs are looked for and written."""

import os
from pathlib import Path

ENVIRONMENT_VARIABLE = "IDENT3D_DATA"


def data_root(root: Path | str | None = None) -> Path:
    """`root` if given, else the folder named by IDENT3D_DATA, else ``./data``."""
    if root is not None:
        return Path(root).expanduser()
    return Path(os.environ.get(ENVIRONMENT_VARIABLE) or "data").expanduser()
