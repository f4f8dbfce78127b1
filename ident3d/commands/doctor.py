"""``ident3d doctor``."""

from pathlib import Path

import click

from ident3d.commands.options import options
from ident3d.commands.output import show


@click.command()
@options("--root", "--json")
def doctor(root: Path | None, as_json: bool) -> int:
    """Check what works on this machine, and print what to do about the rest.

    The exit code is 0 if rendering and training are both possible, 4 if only training is, 8 if only rendering is,
    and 12 if neither is. The last section lists code that has never been run.
    """
    from ident3d.health import doctor as examine

    health = examine(root)
    show(health, as_json)
    return health.exit_code
