"""``export --to``: write a dataset folder in the format of a hub, file by file; an interrupted export goes on."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ident3d.errors import UserError, check_known
from ident3d.loaders.exports.columns import LABELS
from ident3d.loaders.exports.exporting import MARK, Exported
from ident3d.loaders.exports.hub_card import hub_card, sample_picture
from ident3d.loaders.exports.origins import origin_of
from ident3d.loaders.exports.parquet import pyarrow, write_parquet
from ident3d.loaders.exports.parts import BESIDE_PIXELS, Block, blocks_of, parts_of, reader_of_shards, usual_part_size
from ident3d.loaders.exports.png_folder import TABLE_FILE, write_pictures
from ident3d.loaders.exports.record import (
    FORMATS,
    SPLIT_NAME,
    ExportedSplit,
    in_order,
    is_export,
    read_record,
    write_record,
)
from ident3d.loaders.exports.tars import write_tar
from ident3d.loaders.folders.folder import Folder, checked_shard, open_folder
from ident3d.loaders.folders.provenance import PICTURE_FILE, README_FILE
from ident3d.loaders.format.files import (
    TEMPORARY,
    atomic_file,
    new_folder,
    read_json,
    remove_partial_files,
    write_atomically,
)
from ident3d.loaders.format.inside import make_below, plain_sizes, remove
from ident3d.loaders.stores.lease import LEASE_PREFIX, Lease, lease
from ident3d.loaders.stores.store import local_folder
from ident3d.progress import progress_bar

# What the files of a split are called; {k} is the number of the file, and {of} how many there are.
FILES = {"huggingface": "data/SPLIT-{k:05d}-of-{of:05d}.parquet", "webdataset": "SPLIT-{k:05d}.tar"}


def export_to(
    path: Path | str,
    out: Path | str,
    to: str,
    *,
    licence: str | None = None,
    citation: str | None = None,
    part_size: int | None = None,
    show_progress: bool = True,
) -> Exported:
    """Write a dataset for a hub: Parquet files, tar files, or PNG files with a table, and a card that hubs read.

    Pictures are PNG files, so that no pixel changes. Each image has its latents, raw and in scene units, and its class,
    sequence, frame and environment if there are any. The same call goes on with an interrupted export. A train and a
    test set that are exported into one folder become its two splits. `ident3d.import_` makes dataset folders of them
    again.

    Args:
        path: The dataset folder, or its address in a store.
        out: A new folder, or one that holds another split in the same format.
        to: "huggingface" (Parquet files; needs the extra hubs), "webdataset" (tar files) or "png" (PNG files and
            latents.csv; one split).
        licence: The licence of the images, for the card, as Hugging Face names it, such as "cc-by-4.0"; by default
            that of the folder, if it says one.
        citation: How to cite the images, for the card; by default what the folder says, or the paper of the scene.
        part_size: Images in a Parquet or tar file; by default 256 MB of them before they are compressed.
        show_progress: Show a progress bar.

    Returns:
        An `Exported`: the folder, the number of images, and how many were written now.

    Example:
        >>> import ident3d, json
        >>> made = ident3d.export_to(dataset, "shared", "webdataset", part_size=12, show_progress=False)
        >>> sorted(file.name for file in made.path.iterdir())
        ['README.md', 'dataset.json', 'sample.png', 'train-00000.tar', 'train-00001.tar']
    """
    check_known("format of an export", to, FORMATS)
    if part_size is not None and (to == "png" or part_size < 1):
        raise UserError("A Parquet or tar file has at least one image; PNG files have one each, and no part size.")
    if to == "huggingface":
        pyarrow()  # said before anything is opened
    folder, out = open_folder(path), local_folder(out)
    if not (folder.description.complete and folder.entries):
        raise UserError(f"{folder.address} is not finished; export it when all its images are there.")
    name = split_name(folder)
    split = split_due(folder, origin_of(out.resolve().name, folder.description, licence, citation), part_size)
    splits_there(out, to, name, split)
    with new_folder(out), lease(out) as held:
        # Another export may have ended between the first look and the lease.
        splits = splits_there(out, to, name, split)
        write_atomically(out / MARK, json.dumps(mark_of(to, name, split)).encode())
        remove_partial_files(out, keep=MARK)
        recorded: Mapping[str, int] = {}
        if old := splits.get(name):
            split, recorded = replace(split, origin=split.origin | said_before(old, licence, citation)), old.files
        written, files = write_images(folder, out, to, name, split, recorded, held, show_progress)
        split.files.update(files)
        splits = in_order(splits | {name: split})
        write_record(out, to, splits)
        write_atomically(out / README_FILE, hub_card(folder, out, to, splits).encode())
        if plain_sizes(out, "", [PICTURE_FILE])[PICTURE_FILE] is None:
            write_atomically(out / PICTURE_FILE, sample_picture(folder))
    # The mark goes last, after the lease: until then the export can be continued.
    remove(out, MARK)
    return Exported(out, folder.description.n, written)


def split_name(folder: Folder) -> str:
    """Return the split that the folder says it is: train or test, or train if it says nothing that hubs take."""
    said = str(folder.description.settings["source"].get("split") or "train")
    known = [name for name in ("train", "test") if said.startswith(name)]
    return known[0] if known else said if SPLIT_NAME.fullmatch(said) else "train"


def split_due(folder: Folder, origin: dict[str, str], part_size: int | None) -> ExportedSplit:
    """Return what is to be recorded of the folder, but for its files."""
    first, description = checked_shard(folder, folder.entries[0]), folder.description
    labels = tuple(label for label in LABELS if label in first.arrays())
    size = part_size or usual_part_size(description.shape)
    return ExportedSplit(description.n, description.settings, description.shards_sha256, origin, labels, size, {})


def said_before(old: ExportedSplit, licence: str | None, citation: str | None) -> dict[str, str]:
    """Return the terms that an earlier export of the split has recorded, but those that are given now."""
    given = {"licence": licence, "citation": citation}
    return {field: old.origin[field] for field, text in given.items() if text is None}


def mark_of(to: str, name: str, split: ExportedSplit) -> dict[str, Any]:
    """Return what an unfinished export says: it is continued from the same images and with the same settings only."""
    return {"to": to, "split": name, "shards_sha256": split.shards_sha256, "part_size": split.part_size}


def splits_there(out: Path, to: str, name: str, split: ExportedSplit) -> dict[str, ExportedSplit]:
    """Return the splits that the folder holds already; raise UserError if this one cannot be written into it."""
    if not out.exists():
        return {}
    if not out.is_dir():
        raise UserError(f"{out} is a file; choose a new folder.")
    there = {file.name for file in out.iterdir()}
    marked = MARK in there
    if marked:
        try:
            same = read_json(out / MARK) == mark_of(to, name, split)
        except (OSError, ValueError):
            same = False
        if not same:
            raise UserError(
                f"{out} holds an unfinished export of other images or with other settings; finish it with the same "
                "command, or choose an empty folder."
            )
    if not is_export(out):
        if not marked and any(not file.startswith((LEASE_PREFIX, TEMPORARY)) for file in there):
            raise UserError(f"{out} already holds something else; choose an empty folder.")
        return {}
    found, splits = read_record(out)
    if found != to:
        raise UserError(f"{out} holds an export for {found}; choose an empty folder.")
    if to == "png" and name not in splits:
        raise UserError(f"{out} holds the split {next(iter(splits))}; a folder of PNG files has one split.")
    old = splits.get(name)
    if old and mark_of(to, name, old) != mark_of(to, name, split):
        raise UserError(f"{out} holds a split {name} of other images or another part size; choose an empty folder.")
    for other, each in splits.items():
        if [(c.name, c.kind, c.names) for c in each.columns] != [(c.name, c.kind, c.names) for c in split.columns]:
            raise UserError(f"{out} holds a split {other} with other latents or labels; choose an empty folder.")
    return splits


def write_images(
    folder: Folder,
    out: Path,
    to: str,
    name: str,
    split: ExportedSplit,
    recorded: Mapping[str, int],
    held: Lease,
    show_progress: bool,
) -> tuple[int, dict[str, int]]:
    """Write the files that are missing, or have not the recorded bytes; return how many images, and bytes of files."""
    n, columns = folder.description.n, split.columns
    if to == "png":
        with progress_bar(n, "images", show=show_progress) as bar:
            written = write_pictures(out, folder, columns, bar.update)
        return written, sizes_of(out, [TABLE_FILE])
    parts = parts_of(n, split.part_size, FILES[to].replace("SPLIT", name))
    names = [part.name for part in parts]
    if to == "huggingface":
        make_below(out, "data")
        remove_partial_files(out, "data")
    # Of an unfinished export nothing is recorded, but its files are whole: they were synced before they were named.
    there = {file: size for file, size in sizes_of(out, names).items() if size == recorded.get(file, size)}
    due = [part for part in parts if part.name not in there]
    read = reader_of_shards(folder)
    written = sum(part.stop - part.first for part in due)
    with progress_bar(n, "images", initial=n - written, show=show_progress) as bar:
        for part in due:
            held.check()
            blocks = counted(blocks_of(folder, part, columns, read), bar.update)
            with atomic_file(out / part.name, within=out) as file:
                if to == "huggingface":
                    write_parquet(file, blocks, columns, BESIDE_PIXELS + folder.description.size**2 * 3)
                else:
                    write_tar(file, blocks, columns)
    return written, sizes_of(out, names)


def counted(blocks: Iterable[Block], advance: Callable[[int], object]) -> Iterator[Block]:
    """Yield the blocks, and say of each how many images it had when it is done with."""
    for block in blocks:
        yield block
        advance(len(block.pictures))


def sizes_of(out: Path, names: Iterable[str]) -> dict[str, int]:
    """Return the bytes of those of the files that are there."""
    found: dict[str, int] = {}
    for name in names:
        below, _, last = name.rpartition("/")
        size = plain_sizes(out, below, [last])[last]
        found |= {} if size is None else {name: size}
    return found
