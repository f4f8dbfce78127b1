"""Options that several commands share, so that a name means the same thing everywhere."""

from pathlib import Path

import click

root_option = click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder below which datasets and runs live; else IDENT3D_DATA, else ./data.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON instead of a table.")
