"""``provenance.json``: which runs made a dataset, where and when. Outside the folder's promise of byte identity.

It also has the hashes of the card, README.md and sample.png, so that `verify` notices when they are lost or damaged.
"""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ident3d.loaders.format.description import digest
from ident3d.loaders.format.files import read_json, sha256, sha256_of_file, write_json
from ident3d.loaders.format.inside import plain_sizes, read_plain
from ident3d.machine import cpu_model, installed_versions

PROVENANCE_FILE = "provenance.json"
README_FILE, PICTURE_FILE = "README.md", "sample.png"
CARD_FILES = (README_FILE, PICTURE_FILE)
BESIDE_NAMES = (*CARD_FILES, PROVENANCE_FILE)
PACKAGES = ("ident3d", "bpy", "numpy", "h5py", "distributed", "deflate")


def history(folder: Path) -> dict[str, Any] | None:
    """Return the runs and the hashes of the card; None if the file is missing or damaged."""
    try:
        content = read_json(folder / PROVENANCE_FILE)
        found = content.pop("digest", None)  # version 0.1 wrote none
        sound = isinstance(content["runs"], list) and isinstance(content.get("card", {}), dict)
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return content if sound and found in (None, digest(content)) else None


def write_history(folder: Path, content: dict[str, Any]) -> None:
    write_json(folder / PROVENANCE_FILE, content | {"digest": digest(content)})


def record_run(folder: Path, started: datetime, *, ended: bool = True, **facts: object) -> None:
    """Record a run: once when it begins, with `ended` False, and again when it ends, in the place of the first."""
    # A damaged history is no reason to fail: a new one starts here.
    content = history(folder) or {"runs": []}
    run = {
        "started": started.isoformat(timespec="microseconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds") if ended else None,
        "host": platform.node(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "versions": installed_versions(PACKAGES),
    } | facts
    # A run that was killed never ended, and stays.
    begun = {name: run[name] for name in ("started", "host")} | {"ended": None}
    others = [other for other in content["runs"] if not (isinstance(other, dict) and begun.items() <= other.items())]
    write_history(folder, content | {"runs": [*others, run]})


def record_card(folder: Path, names: Sequence[str]) -> None:
    """Record the hashes of these files of the card, which were just written."""
    content = history(folder) or {"runs": []}
    card = content.get("card", {}) | {name: sha256(read_plain(folder, name)) for name in names}
    write_history(folder, content | {"card": card})


def lost_beside(folder: Path) -> list[str]:
    """Return which of the card's files and the provenance are missing, empty or no plain files."""
    return [name for name, size in plain_sizes(folder, "", BESIDE_NAMES).items() if not size]


def beside_problems(folder: Path) -> dict[str, str]:
    """Return what is wrong with the card's files and the provenance, by file; nothing if there is none of them."""
    lost, known = lost_beside(folder), history(folder)
    found = {}
    if known is None and len(lost) < len(BESIDE_NAMES):
        found[PROVENANCE_FILE] = f"{PROVENANCE_FILE} is missing or damaged"
    # Version 0.1 recorded no hashes, so that its folders may go without a card.
    for name, recorded in ((known or {}).get("card") or {}).items():
        if name in CARD_FILES and (name in lost or sha256_of_file(folder / name) != recorded):
            found[name] = f"{name} is lost, or not as it was written"
    return found
