"""Which dataset folder is meant: the only training set, its test set, and what must not be scored together."""

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import read_world
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.format.description import (
    DATASET_FILE,
    Description,
    differences,
    read_description,
)
from ident3d.loaders.format.latents_source import FULL_GRID
from ident3d.loaders.stores.data_root import data_root
from ident3d.training.images.run import Run

# Of many training sets, so many are named.
SHOWN = 5


def split_of(description: Description) -> str:
    """Return train or test, as the source of the latents says."""
    return str(description.settings["source"].get("split", "train"))


def datasets_below(root: Path) -> Iterator[tuple[Path, Description]]:
    """Yield the complete dataset folders at most two levels below the root, newest first, without broken ones."""
    found = [path.parent for above in ("*", "*/*") for path in root.glob(f"{above}/{DATASET_FILE}")]
    for path in sorted(found, key=lambda folder: (folder / DATASET_FILE).stat().st_mtime, reverse=True):
        try:
            description = read_description(path)
        # A broken folder somewhere below the root must not keep anybody from training on a sound one.
        except UserError:
            continue
        if description.complete and description.n:
            yield path, description


def training_folder(
    path: Path | None, root: Path | str | None, *, allow_same: bool = False
) -> tuple[Path, Description]:
    """Return the folder to train on: `path`, or the only complete one of split train below the data root."""
    if path is None:
        base = data_root(root)
        found = [found for found in datasets_below(base) if split_of(found[1]) == "train"]
        if not found:
            raise UserError(f"There is no complete training set below {base}; `ident3d render --n 10000` makes one.")
        # The newest may be a folder that was made to try something out, so none is chosen for the user.
        if len(found) > 1:
            shown = ", ".join(f"{path} ({description.n:,} images)" for path, description in found[:SHOWN])
            others = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            raise UserError(
                f"There are {len(found)} training sets below {base}: {shown}{others}. Name one, as in "
                f"`ident3d train {found[0][0]}`."
            )
        return found[0]
    description = read_finished(path)
    if split_of(description) == "test" and not allow_same:
        raise UserError(f"{path} is a test set; train on another folder, or say --allow-same.")
    return path, description


def read_finished(path: Path) -> Description:
    """Return the description of a complete folder that holds images; raise UserError for any other folder."""
    if path.is_dir() and not is_dataset(path) and not any(path.iterdir()):
        raise UserError(f"{path} is empty: `ident3d render` or `ident3d import` makes a dataset.")
    description = read_description(path)
    if not description.n:
        raise UserError(f"{path} holds no images.")
    if not description.complete:
        raise UserError(f"{path} is not finished yet; the command that began it goes on where it stopped.")
    return description


def held_out_folder(run: Run, root: Path | str | None) -> Path | None:
    """Return the test set of a run's training set, if any, that lies beside the training set or below the root."""
    # A set beside the training set was most probably rendered for it, so it comes first.
    return matching_test_set(run.data["settings"], (Path(run.data["path"]).resolve().parent, data_root(root)))


def matching_test_set(ours: dict[str, Any], bases: Iterable[Path]) -> Path | None:
    """Return the newest complete folder of split test with the training set's world, material and size, if any.

    The first of the bases that holds one counts. One of the training set's own seed goes before all others: of another
    seed are images for tuning, such as those of `reproduce --validation`.
    """
    alike = ("world", "material", "size")
    others = []
    for base in bases:
        for path, other in datasets_below(base):
            theirs = other.settings
            if split_of(other) != "test" or any(theirs[name] != ours[name] for name in alike):
                continue
            if theirs["source"].get("seed") == ours["source"].get("seed"):
                return path
            others.append(path)
    return others[0] if others else None


def read_fitting(run: Run, path: Path) -> Description:
    """Return the description of a complete folder, which must show the run's scene in its size or larger."""
    description = read_finished(path)
    theirs, ours = description.settings, run.data["settings"]
    size, why = run.settings.size or run.data["size"], None
    # Other ranges or fixed latents may be scored, with a label. Another scene has other latents.
    here, there = name_of_latents(theirs), name_of_latents(ours)
    channels, due = theirs.get("channels", 3), ours.get("channels", 3)
    if here != there:
        why = f"it shows {here}, the run was trained on {there}"
    elif theirs["size"] < size:
        why = f"its images are {theirs['size']} pixels wide, the run's {size}"
    elif channels != due:
        why = f"its images have {channels} channels, the run's {due}"
    if why:
        raise UserError(f"{path} does not fit the run {run.path}: {why}.")
    return description


def name_of_latents(settings: dict[str, Any]) -> str:
    """Return what tells latents apart that cannot be compared: the name of the scene, or of all declared factors."""
    return str(settings["world"].get("scene") or ", ".join(read_world(settings["world"]).names))


def other_world(trained: dict[str, Any], other: Description) -> str | None:
    """Return in what images of another folder are of another world than a run was trained on; None if they are not."""
    alike = ("world", "material")
    found = differences({name: other.settings[name] for name in alike}, {name: trained[name] for name in alike})
    return "; ".join(found).replace("asked for", "in training") or None


def is_trained_on(trained: dict[str, Any], other: Description) -> bool:
    """Return whether a run was trained on images of this folder: the same latents of the same world."""
    return bool(
        trained["world"] == other.settings["world"]
        and source_of_latents(trained["source"]) == source_of_latents(other.settings["source"])
        and trained["source"].get("kind") is not None
    )


def source_of_latents(source: dict[str, Any]) -> object:
    """Return what tells one source of latents from another: the digest of a file or import, else how they are drawn."""
    digests = ("sha256", "images_sha256", "files_sha256", "raw_latents_sha256", "latents_sha256")
    return next((source[name] for name in digests if source.get(name)), source)


def is_in_training_grid(trained: dict[str, Any], count: int, other: Description) -> bool:
    """Return whether a run was trained on `count` images, one of each combination of the same world's listed values.

    Then it has seen every image of that world, whatever the split is called.
    """
    world = read_world(trained["world"])
    values = [factor.values for factor in world.factors] if isinstance(world, Factors) else []
    # Drawn images may be as many as the grid has, and leave some of it out.
    whole = trained["source"].get("images", FULL_GRID) == FULL_GRID
    is_full = bool(values) and prod(map(len, values)) == count and whole
    return is_full and other_world(trained, other) is None
