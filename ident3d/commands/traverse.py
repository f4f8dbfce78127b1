"""``ident3d traverse``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import Sectioned, option, options
from ident3d.commands.parameters import numbers
from ident3d.commands.recipe_options import recipe_of, recipe_options


@click.command(cls=Sectioned)
@options(
    option("--out", default=Path("traverse.png")),
    option("--values", "steps", type=int, show_default="7, or 2 in a scene with classes",
           help="Number of values of each latent, from -1 to 1."),
    option("--base", type=numbers(), show_default="all 0",
           help="Raw latents of the image that is varied."),
)  # fmt: skip
@recipe_options
def traverse(out: Path, steps: int | None, base: tuple[float, ...] | None, **recipe: Any) -> None:
    """Draw what each latent does.

    One column per latent, which runs from -1 to 1 down the rows while the others stay fixed. In a scene with classes
    one row per class, with the values side by side.
    """
    from ident3d.loaders.cards.contact_sheet import check_picture_path, save_picture
    from ident3d.looking.pictures import traverse

    # A wrong ending is refused before anything is rendered.
    check_picture_path(out)
    sheet = traverse(recipe_of(recipe), steps=steps, base=base)
    save_picture(sheet, out)
    click.echo(f"{out}: {sheet.width}x{sheet.height} pixels")
