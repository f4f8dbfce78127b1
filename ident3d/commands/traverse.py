"""``ident3d traverse``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import recipe_of, recipe_options


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("traverse.png"), show_default=True)
@click.option("--steps", type=int, help="Values from -1 to 1 of each latent: 7, or 2 in a scene with classes.")
@click.option("--base", help="Raw latents of the image that is varied, separated by commas; all 0 by default.")
@recipe_options
def traverse(out: Path, steps: int | None, base: str | None, **recipe_settings: Any) -> None:
    """Draw what each latent does.

    One column per latent, which runs from -1 to 1 down the rows while the others stay fixed. In a scene with classes
    one row per class, with the steps side by side.
    """
    from ident3d.errors import UserError
    from ident3d.loaders.folders.contact_sheet import check_picture_path, save_picture
    from ident3d.looking.pictures import traverse

    check_picture_path(out)
    try:
        start = None if base is None else [float(value) for value in base.split(",")]
    except ValueError:
        raise UserError(f"--base takes numbers separated by commas, not {base!r}.") from None
    sheet = traverse(recipe_of(recipe_settings), steps=steps, base=start)
    save_picture(sheet, out)
    click.echo(f"{out}: {sheet.width}x{sheet.height} pixels")
