"""``ident3d index``."""

from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, option, options
from ident3d.commands.output import print_warnings, show


@click.command()
@dataset_argument
@options(option("--search", default="ivf"), "--json")
def index(directory: Path | str, search: str, as_json: bool) -> None:
    """Build a dataset's search index ahead of time and measure it.

    The papers' index is kept in the user's cache folder, under the hash of the latents; below 40,000 images the exact
    search is used instead.
    """
    from ident3d.loaders.datasets.search_index import index

    with print_warnings():
        found = index(directory, search)
    show(found, as_json)
