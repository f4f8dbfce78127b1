"""``ident3d doctor``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import json_option, root_option


@click.command()
@root_option
@json_option
def doctor(root: Path | None, as_json: bool) -> int:
    """Say what works on this machine, and what to do about what does not.

    The exit code is 0 if rendering and training are both possible, 4 if only training is, 8 if only rendering is,
    and 12 if neither is.
    """
    from ident3d.health import doctor as examine

    health = examine(root)
    click.echo(json.dumps(health.as_dict(), indent=2) if as_json else health.table())
    return health.exit_code
