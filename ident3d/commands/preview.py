"""``ident3d preview``."""

from pathlib import Path

import click

from ident3d.commands.options import beside, dataset_argument


@click.command()
@dataset_argument
@click.option(
    "--out", type=click.Path(path_type=Path), help="The picture; DIR-preview.png beside the dataset by default."
)
@click.option("--n", "count", default=24, show_default=True, help="How many images.")
@click.option("--columns", default=6, show_default=True, help="Images in a row.")
@click.option("--latents", "with_latents", is_flag=True, help="Write each image's raw latents below it.")
def preview(directory: Path | str, out: Path | None, count: int, columns: int, with_latents: bool) -> None:
    """Draw a contact sheet of a dataset."""
    from ident3d.loaders.folders.contact_sheet import check_picture_path, save_picture
    from ident3d.looking.pictures import preview

    out = out or beside(directory, "-preview.png")
    check_picture_path(out)
    sheet = preview(directory, count=count, columns=columns, with_latents=with_latents)
    save_picture(sheet, out)
    click.echo(f"{out}: {sheet.width}x{sheet.height} pixels")
