"""``ident3d info``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, json_option


@click.command()
@dataset_argument
@json_option
def info(directory: Path | str, as_json: bool) -> None:
    """Say what a dataset folder holds.

    Settings, totals, and how well each latent can be known from the pictures at best (its attainable R²).
    """
    from ident3d.looking.info import info as look

    found = look(directory)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else found.table())
