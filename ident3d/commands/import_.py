"""``ident3d import``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import option, options, show


@click.command(name="import")
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@options(
    option("--split", default=None, show_default="the only one there is"),
    option("--licence", show_default="that of the Zenodo record", help="Licence of the data, for the card."),
    option("--citation", show_default="the published paper", help="What to cite, for the card."),
    "--workers",
    "--shard-size",
    "--json",
)
def import_(source: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Turn published 3DIdent or Causal3DIdent files into a dataset folder.

    SRC is a folder, a .tar or a compressed .tar in the layout of the Zenodo archives; nothing is unpacked to disk.
    Stray files are ignored. The split `train` is a folder train or trainset. The same command continues an interrupted
    import.
    """
    from ident3d.loaders.layouts.importing import import_

    # A bar would stand between the lines of --json if both go to one file.
    result = import_(source, out, show_progress=not as_json, **given)
    show(result, as_json, f"{result.path}: {result.n:,} images, {result.imported:,} of them imported now")
