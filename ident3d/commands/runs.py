"""``ident3d runs``."""

from pathlib import Path

import click

from ident3d.commands.options import options
from ident3d.commands.output import show
from ident3d.commands.parameters import FOLDER


@click.command()
@click.argument("directory", metavar="[DIR]", required=False, type=FOLDER)
@options("--root", "--json")
def runs(directory: Path | None, root: Path | None, as_json: bool) -> int:
    """List runs: data, loss, encoder, conditional, seed, steps and scores.

    Lists the runs in DIR and up to four levels below it, those of tables among them; by default all below the data
    root. The exit code is 1 if there are runs and none of them can be read.
    """
    from ident3d.training.runs.listing import runs

    found = runs(directory, root=root)
    show(found, as_json)
    return 1 if found.unreadable and not found.runs else 0
