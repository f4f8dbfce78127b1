"""``ident3d info``."""

from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, options
from ident3d.commands.output import show


@click.command()
@dataset_argument
@options("--json")
def info(directory: Path | str, as_json: bool) -> None:
    """Print what a dataset folder holds.

    Settings, totals, and how well each latent can be known from the pictures at best (its attainable R²).
    """
    from ident3d.looking.info import info

    show(info(directory), as_json)
