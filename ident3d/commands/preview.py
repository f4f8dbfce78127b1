"""``ident3d preview``."""

from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, option, options
from ident3d.commands.output import next_to


@click.command()
@dataset_argument
@options(
    option("--out", show_default="DIR-preview.png next to the dataset"),
    option("--n", "count", default=24),
    option("--columns", type=int, show_default="6; all of a sequence or z, up to 12", help="Images in a row."),
    option(
        "--by-sequence",
        is_flag=True,
        help="One row for each sequence, its frames from left to right, or for each z of views.",
    ),
    option("--with-latents", is_flag=True, help="Write each image's raw latents below it, and its categories by name."),
)
def preview(
    directory: Path | str, out: Path | None, count: int, columns: int | None, by_sequence: bool, with_latents: bool
) -> None:  # fmt: skip
    """Draw a contact sheet of a dataset."""
    from ident3d.loaders.cards.contact_sheet import check_picture_path, save_picture
    from ident3d.looking.pictures import preview

    out = out or next_to(directory, "-preview.png")
    # A wrong ending is refused before images are read.
    check_picture_path(out)
    sheet = preview(directory, count=count, columns=columns, with_latents=with_latents, by_sequence=by_sequence)
    save_picture(sheet, out)
    click.echo(f"{out}: {sheet.width}x{sheet.height} pixels")
