"""``import``: make a dataset folder from published files, whichever data set they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ident3d.errors import UserError, check_known
from ident3d.loaders.exports.record import is_export
from ident3d.loaders.folders.make import check_amounts
from ident3d.loaders.layouts.dsprites_npz import import_dsprites
from ident3d.loaders.layouts.exported import import_export
from ident3d.loaders.layouts.kitti_annotations import picture_folders, text_files
from ident3d.loaders.layouts.kitti_masks import import_kitti_masks
from ident3d.loaders.layouts.pictures import Imported, import_pictures
from ident3d.loaders.stores.store import local_folder

# How a file of each kind begins; of old pickles, only the name tells.
ZIP, PICKLE = b"PK\x03\x04", b"\x80"
PICKLES: Final = (".pickle", ".pkl")
KITTI: Final = "kitti-masks"
# Both of ours are told apart by what is in the files.
DATA: Final = ("3dident", "causal3dident", "dsprites", KITTI)


def import_(
    source: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    data: str | None = None,
    split: str | None = None,
    licence: str | None = None,
    citation: str | None = None,
    workers: int | None = None,
    shard_size: int | None = None,
    show_progress: bool = True,
) -> Imported:
    """Make a dataset folder from published files (3DIdent, Causal3DIdent, dSprites, KITTI Masks), or from an export.

    The first two are a folder, a .tar or a compressed .tar of pictures and arrays. Their images of several classes take
    turns: image k of class c comes before image k of class c + 1. The raw → scene mapping is inferred from the two
    arrays and recorded. dSprites is an .npz archive, whose factors become those of `ident3d.dsprites`. KITTI Masks are
    a pickle, of which only arrays are read, or the annotations that it was made of: two folders, KITTI-MOTS'
    ``instances_txt`` and MOTSChallenge's ``instances``. Each image then has a sequence and a frame.

    What `export_to` wrote becomes a dataset folder with equal pixels, latents, classes, sequences and frames. An
    import keeps what an interrupted one has finished.

    Args:
        source: A folder or file in a published layout, or a folder of `export_to`; of the annotations a sequence of
            both folders.
        out: A new dataset folder.
        data: What the files are: "3dident", "causal3dident", "dsprites" or "kitti-masks"; by default what they look
            like.
        split: "train" or "test"; by default what the layout says, or "train".
        licence: The licence of the data, for the card.
        citation: How to cite the data, for the card.
        workers: Processes that encode shards.
        shard_size: Images in a shard.
        show_progress: Show a progress bar.

    Returns:
        An `Imported`: the folder, and what was taken over.

    Example:
        >>> import ident3d
        >>> _ = ident3d.export(dataset, "published/train", show_progress=False)
        >>> _ = ident3d.import_("published", "imported", split="train", workers=1, show_progress=False)
        >>> len(ident3d.ImageDataset("imported"))
        16
    """
    places = [local_folder(each) for each in ([source] if isinstance(source, str | Path) else source)]
    check_amounts(workers, shard_size)
    # A FIFO exists as well, and whoever opens it waits for ever.
    if missing := [place for place in places if not (place.is_dir() or place.is_file())]:
        raise UserError(f"There is no folder or archive {missing[0]}.")
    if data is not None:
        check_known("published data set", data, DATA)
    given: dict[str, Any] = {"split": split, "licence": licence, "citation": citation}
    given |= {"workers": workers, "shard_size": shard_size, "show_progress": show_progress}
    if data is None and len(places) == 1 and is_export(places[0]):
        return import_export(places[0], local_folder(out), **given)
    data = data or looks_like(places)
    if not places or (len(places) > 1 and (data != KITTI or not all(place.is_dir() for place in places))):
        raise UserError(f"An import reads one folder or file, or the two folders of annotations, not {len(places)}.")
    if data == KITTI:
        return import_kitti_masks(places, local_folder(out), **given)
    read = import_dsprites if data == "dsprites" else import_pictures
    return read(places[0], local_folder(out), **given)


def looks_like(places: Sequence[Path]) -> str:
    """Return which data set the files look like; whatever is nothing else may be 3DIdent's archives."""
    if any(starts_with(place, PICKLE) or place.suffix in PICKLES for place in places):
        return KITTI
    if any(place.is_dir() and (text_files(place) or picture_folders(place)) for place in places):
        return KITTI
    return "dsprites" if any(starts_with(place, ZIP) for place in places) else "3dident"


def starts_with(path: Path, magic: bytes) -> bool:
    """Return whether a plain file begins with these bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(magic)) == magic
