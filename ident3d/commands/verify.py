"""``ident3d verify``."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, json_option, telling_warnings


@click.command()
@dataset_argument
@click.option(
    "--repair", is_flag=True, help="Remove what is broken, so that the same `render` or `import` makes it again."
)
@json_option
def verify(directory: Path | str, repair: bool, as_json: bool) -> int:
    """Check every hash, shape, index and latent of a dataset.

    The exit code is 0 for a complete dataset with nothing wrong, else 1.
    """
    from ident3d.loaders.folders.verify import verify

    with telling_warnings():
        result = verify(directory, repair=repair)
    if as_json:
        click.echo(json.dumps(asdict(result) | {"path": str(result.path), "sound": result.sound}))
        return 0 if result.sound else 1
    for problem in result.problems:
        click.echo(problem.what)
    click.echo(f"{result.good:,} images are as recorded, {result.missing:,} are not rendered yet.")
    if result.repaired:
        click.echo("What was broken is removed; the same `ident3d render` or `import` as before makes it again.")
    elif result.problems:
        click.echo(
            "`ident3d verify --repair` removes what is broken, so that the same `render` or `import` makes it again."
        )
    return 0 if result.sound else 1
