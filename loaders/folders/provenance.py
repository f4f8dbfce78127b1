"""``provenance.json``: which runs made a dataset, where and when. Outside the folder's promise of byte identity."""

import platform
from datetime import UTC, datetime
from pathlib import Path

from ident3d.loaders.format.files import read_json, write_json
from ident3d.machine import cpu_model, installed_versions

PROVENANCE_FILE = "provenance.json"
PACKAGES = ("ident3d", "bpy", "numpy", "h5py", "distributed", "deflate")


def record_run(folder: Path, started: datetime, **facts: object) -> None:
    """Add one run to the folder's provenance."""
    path = folder / PROVENANCE_FILE
    try:
        runs = list(read_json(path)["runs"]) if path.exists() else []
    except (ValueError, KeyError, TypeError):
        runs = []  # a damaged history is no reason to fail: a new one starts here
    run = {
        "started": started.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "versions": installed_versions(PACKAGES),
    }
    write_json(path, {"runs": [*runs, run | facts]})
