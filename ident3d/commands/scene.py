"""``ident3d scene``."""

from pathlib import Path
from typing import Any

import click

from ident3d.cli import Commands
from ident3d.commands.options import Sectioned, option, options
from ident3d.commands.recipe_options import recipe_of, recipe_options


@click.group(cls=Commands)
def scene() -> None:
    """Try a scene before it is rendered, or start from an example."""


@scene.command(cls=Sectioned)
@options(option("--out", default=Path("scene-check.png")))
@recipe_options
def check(out: Path, **recipe: Any) -> None:
    """Pose a scene at the extremes of every factor, and say what leaves the image or has no effect on it.

    \b
      ident3d scene check --scene mine.py:Lamp --size 64 --quality draft
      ident3d scene check --scene examples:Objects --size 64
    """
    from ident3d.loaders.cards.contact_sheet import check_picture_path, save_picture
    from ident3d.looking.scene_check import check_scene

    # A wrong ending is refused before anything is rendered.
    check_picture_path(out)
    wanted = recipe_of(recipe)
    if undriven := getattr(wanted.world, "undriven", ""):
        click.echo(f"Note: {undriven}", err=True)
    found = check_scene(wanted)
    save_picture(found.sheet, out)
    click.echo(f"{found.table()}\n\n{out}: {found.sheet.width}x{found.sheet.height} pixels")


@scene.command(name="print")
@click.argument("name", metavar="examples:NAME")
def print_(name: str) -> None:
    """Print the file of an example, examples:Objects or examples:Camera, to start a scene of your own from.

    \b
      ident3d scene print examples:Objects > mine.py
      ident3d scene check --scene mine.py:Objects
    """
    from ident3d.farm.scenes import SHIPPED, example_text

    click.echo(example_text(name.removeprefix(f"{SHIPPED}:")), nl=False)
