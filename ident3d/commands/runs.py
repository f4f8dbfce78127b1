"""``ident3d runs``."""

from pathlib import Path

import click

from ident3d.commands.options import options, show
from ident3d.commands.parameters import FOLDER


@click.command()
@click.argument("directory", metavar="[DIR]", required=False, type=FOLDER)
@options("--root", "--json")
def runs(directory: Path | None, root: Path | None, as_json: bool) -> None:
    """List runs: data, loss, encoder, conditional, seed, steps and scores.

    Lists the runs in DIR and up to four levels below it, those of tables among them; by default all below the data
    root.
    """
    from ident3d.training.runs.listing import runs

    show(runs(directory, root=root), as_json)
