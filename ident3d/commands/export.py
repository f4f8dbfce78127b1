"""``ident3d export``."""

from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, options, print_warnings, show


@click.command()
@dataset_argument
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@options("--json")
def export(directory: Path | str, out: Path, as_json: bool) -> None:
    """Write a dataset as the PNG files and arrays that 3DIdent was published as.

    Code that was written for the published 3DIdent or Causal3DIdent then reads it unchanged. The same command continues
    an interrupted export.
    """
    from ident3d.loaders.layouts.exporting import export

    with print_warnings():
        result = export(directory, out, show_progress=not as_json)
    show(result, as_json, f"{result.path}: {result.n:,} images, {result.written:,} of them written now")
