"""``ident3d export``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import Sectioned, dataset_argument, option, options
from ident3d.commands.output import print_warnings, show
from ident3d.errors import UserError

# Parameter → its option, and the one that this belongs to.
BELONGS = {
    "fps": ("--fps", "--video"),
    "count": ("--sequences", "--video"),
    "licence": ("--licence", "--to"),
    "citation": ("--citation", "--to"),
    "part_size": ("--part-size", "--to"),
}


@click.command(cls=Sectioned)
@dataset_argument
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@options("--json")
@options(
    option(
        "--to",
        metavar="[huggingface|webdataset|png]",
        help="Write Parquet files, tar files, or PNG files with latents.csv, and a card that hubs read; OUT may hold "
        "another split.",
    ),
    option("--licence", show_default="that of the dataset, if it says one"),
    option("--citation", show_default="what the dataset says, or the paper of its scene"),
    option(
        "--part-size", type=int, show_default="256 MB of them, uncompressed", help="Images in a Parquet or tar file."
    ),
    section="For a hub",
)
@options(
    option(
        "--video",
        "kind",
        metavar="[gif|webp]",
        help="Write each sequence as a moving picture instead; if OUT ends with .gif or .webp, one of the first "
        "sequences side by side.",
    ),
    option("--fps", type=float, show_default="10", help="Frames a second."),
    option("--sequences", "count", type=int, show_default="all, or 16 side by side", help="How many sequences."),
    section="Moving pictures",
)
def export(
    directory: Path | str, out: Path, to: str | None, kind: str | None, as_json: bool, **given: Any
) -> None:  # fmt: skip
    """Write a dataset as files that others read: PNG files and arrays as 3DIdent was published, or what a hub takes.

    Without --to, code that was written for the published 3DIdent or Causal3DIdent reads it unchanged. The same command
    continues an interrupted export. With --to, `ident3d import` makes a dataset folder of it again.

    \b
      ident3d export DIR pngs
      ident3d export DIR shared --to huggingface --licence cc-by-4.0
      ident3d export DIR first.gif --video gif --sequences 9
    """
    given = {name: value for name, value in given.items() if value is not None}
    if to is not None and kind is not None:
        raise UserError("Give --to or --video, and not both.")
    chosen = "--to" if to is not None else "--video" if kind is not None else ""
    for name, other in map(BELONGS.__getitem__, given):
        if other != chosen:
            raise UserError(f"{name} belongs to {other}.")
    given["show_progress"] = not as_json
    if kind is not None:
        from ident3d.looking.video import export_video

        moved = export_video(directory, out, kind=kind, **given)
        show(moved, as_json, f"{moved.path}: {moved.n:,} images, files written now: {moved.written:,}")
        return
    if to is not None:
        from ident3d.loaders.exports.export_to import export_to

        result = export_to(directory, out, to, **given)
    else:
        from ident3d.loaders.exports.exporting import export

        with print_warnings():
            result = export(directory, out, **given)
    show(result, as_json, f"{result.path}: {result.n:,} images, {result.written:,} of them written now")
