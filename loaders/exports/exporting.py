"""``export``: write a dataset folder in the published layout, for code that was written for that layout."""

import json
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.exact.names import CLASSES
from ident3d.loaders.cards.contact_sheet import picture_of
from ident3d.loaders.datasets.stored_images import StoredImages
from ident3d.loaders.exports.png_folder import is_whole
from ident3d.loaders.folders.folder import Folder, checked_shards, open_folder
from ident3d.loaders.format.files import TEMPORARY, atomic_file, read_json, remove_partial_files, write_atomically
from ident3d.loaders.format.inside import make_below, remove
from ident3d.loaders.format.latents_source import npy_bytes
from ident3d.loaders.stores.lease import LEASE_PREFIX, lease
from ident3d.loaders.stores.store import local_folder
from ident3d.progress import progress_bar

MARK = f"{TEMPORARY}export.json"


@dataclass(frozen=True)
class Exported:
    """What an export wrote: images in all, and those of this run."""

    path: Path
    n: int
    written: int


def export(path: Path | str, out: Path | str, *, show_progress: bool = True) -> Exported:
    """Write images/NNNNNN.png, raw_latents.npy and latents.npy; for each class c one such set, named ..._c.

    An interrupted export continues where it stopped. Shards are checked against their hashes. A warning says so if the
    published class of Causal3DIdent cannot read what is written: it takes seven classes of equally many images.

    Args:
        path: The dataset folder, or its address in a store.
        out: A new folder.
        show_progress: Show a progress bar.

    Returns:
        An `Exported`: the folder, and what was written.

    Example:
        >>> import ident3d
        >>> from pathlib import Path
        >>> _ = ident3d.export(dataset, "exported", show_progress=False)
        >>> len(list(Path("exported/images").iterdir())), Path("exported/raw_latents.npy").exists()
        (16, True)
    """
    folder, out = open_folder(path), local_folder(out)
    if not folder.description.complete:
        raise UserError(f"{folder.address} is not finished; export it when all its images are there.")
    begin_export(folder, out)
    with lease(out):
        # By the suffix of the class. An image's number is the count of those of its class before it.
        raw: defaultdict[str, list[NDArray[np.float32]]] = defaultdict(list)
        scene: defaultdict[str, list[NDArray[np.float32]]] = defaultdict(list)
        counts = class_counts(folder)
        if folder.description.scene == "causal3dident" and (note := unread_by_published_class(counts)):
            warnings.warn(note, stacklevel=2)
        digits = {suffix: len(str(max(1, n - 1))) for suffix, n in counts.items()}
        for suffix in counts:
            make_below(out, f"images{suffix}")
        written = 0
        with progress_bar(folder.description.n, "images", show=show_progress) as bar:
            for shard in checked_shards(folder):
                for i, image in enumerate(shard.images):
                    suffix = "" if shard.classes is None else f"_{shard.classes[i]}"
                    if suffix not in counts:
                        raise UserError(
                            f"{folder.address} has other classes in its shards than in its table of latents."
                        )
                    name = f"{len(raw[suffix]):0{digits[suffix]}d}.png"
                    raw[suffix].append(shard.raw_latents[i])
                    scene[suffix].append(shard.scene_latents[i])
                    written += write_picture(out, f"images{suffix}/{name}", image)
                bar.update(len(shard.images))
        for suffix in raw:
            write_atomically(out / f"raw_latents{suffix}.npy", npy_bytes(np.stack(raw[suffix])))
            write_atomically(out / f"latents{suffix}.npy", npy_bytes(np.stack(scene[suffix])))
            remove_partial_files(out, f"images{suffix}")
        remove_partial_files(out, keep=MARK)
    # The mark goes last, after the lease: nothing but the layout is left. Until then the export can be continued.
    remove(out, MARK)
    return Exported(out, folder.description.n, written)


def begin_export(folder: Folder, out: Path, **settings: str | float) -> None:
    """Mark `out` as an export of just these shards with these settings, or refuse it if it holds anything else."""
    out.mkdir(parents=True, exist_ok=True)
    # The mark names the shards, so that an export only continues from the dataset that it started from.
    mark = {"shards_sha256": folder.description.shards_sha256, **settings}
    # A temporary file is what an export leaves that was killed while it wrote its mark.
    present = [p.name for p in out.iterdir() if p.name == MARK or not p.name.startswith((LEASE_PREFIX, TEMPORARY))]
    try:
        same = read_json(out / MARK) == mark
    except (OSError, ValueError):
        same = False
    if present and not same:
        raise UserError(f"{out} already holds something else; choose an empty folder.")
    write_atomically(out / MARK, json.dumps(mark).encode())


def class_counts(folder: Folder) -> dict[str, int]:
    """Return the number of images for each class's suffix; a number's width is that of the largest, ceil(log10 N)."""
    classes = StoredImages(folder).all_latents()[1]
    if classes is None:
        return {"": folder.description.n}
    return {f"_{c}": int(n) for c, n in zip(*np.unique(classes, return_counts=True), strict=True)}


def unread_by_published_class(counts: Mapping[str, int]) -> str:
    """Return why the published class of Causal3DIdent cannot read an export with these images; nothing if it can."""
    missing = [name for k, name in enumerate(CLASSES) if f"_{k}" not in counts]
    if missing:
        lacks = f"it has no image of {', '.join(missing)}"
    elif len(set(counts.values())) > 1:
        lacks = f"its classes have {min(counts.values())} to {max(counts.values())} images"
    else:
        return ""
    return (
        f"The published class of Causal3DIdent reads {len(CLASSES)} classes of equally many images and cannot read "
        f"this export: {lacks}. `ident3d import` reads it."
    )


def write_picture(out: Path, name: str, image: NDArray[np.uint8]) -> bool:
    """Write one PNG and return True, unless an earlier run has written it."""
    if is_whole(out, name):
        return False
    # Renamed when complete, but not synced: a picture is quickly made again, and a sync for each would take hours.
    with atomic_file(out / name, within=out, sync=False) as file:
        picture_of(image).save(file, "png")
    return True
