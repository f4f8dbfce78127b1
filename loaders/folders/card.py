"""The dataset card: a README.md and a sample picture, for people who find the folder."""

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from ident3d.loaders.cards.contact_sheet import contact_sheet, save_picture
from ident3d.loaders.cards.text import card
from ident3d.loaders.folders.provenance import (
    CARD_FILES,
    PICTURE_FILE,
    PROVENANCE_FILE,
    README_FILE,
    record_card,
    record_run,
)
from ident3d.loaders.format.description import SHARDS, Description
from ident3d.loaders.format.files import write_atomically
from ident3d.loaders.format.inside import read_plain
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.format.shard import read_shard


def write_card(
    folder: Path,
    description: Description,
    entries: Sequence[ShardEntry],
    mesh_credits: Sequence[str] = (),
    names: Sequence[str] = CARD_FILES,
) -> None:
    """Write README.md and sample.png into a complete dataset folder, with the credits of the meshes that it shows."""
    # The pictures are those of the first shard: one shard is quickly read, however large the dataset is.
    if PICTURE_FILE in names:
        data = read_plain(folder, f"{SHARDS}/{entries[0].name}", entries[0].bytes)
        first = read_shard(folder / SHARDS / entries[0].name, data)
        sheet = contact_sheet(list(islice(first.images, 12)), columns=min(6, len(first.images)))
        save_picture(sheet, folder / PICTURE_FILE)
    if README_FILE in names:
        write_atomically(folder / README_FILE, card(folder.resolve().name, description, mesh_credits).encode())
    record_card(folder, names)


def remake_lost(
    folder: Path,
    description: Description,
    entries: Sequence[ShardEntry],
    mesh_credits: Sequence[str],
    lost: Sequence[str],
) -> None:
    """Write those of the card's files and the provenance anew that a complete folder has lost, and say so."""
    # A README that is there may be a user's own by now, and is left alone.
    write_card(folder, description, entries, mesh_credits, [name for name in CARD_FILES if name in lost])
    if PROVENANCE_FILE in lost:
        record_run(folder, datetime.now(UTC), images=0)
    warnings.warn(f"Lost in {folder}, and made anew: {', '.join(lost)}.", stacklevel=2)
