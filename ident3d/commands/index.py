"""``ident3d index``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, json_option, telling_warnings


@click.command()
@dataset_argument
@click.option("--search", default="ivf", show_default=True, help="ivf (the papers'), exact (k-d tree) or flat (FAISS).")
@json_option
def index(directory: Path | str, search: str, as_json: bool) -> None:
    """Build a dataset's search index ahead of time and measure it.

    The papers' index is kept in the user's cache folder, under the hash of the latents; below 40,000 images the exact
    search is used instead.
    """
    from ident3d.loaders.datasets.search_index import index

    with telling_warnings():
        found = index(directory, search)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else found.table())
