"""``ident3d import``."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from ident3d.commands.options import json_option


@click.command(name="import")
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--split", help="Which of several splits: train stands for a folder train or trainset.")
@click.option("--licence", help="The data's licence, for the card; else that the Zenodo record names it.")
@click.option("--citation", help="What to cite, for the card; else the published paper.")
@click.option("--workers", type=int, help="Processes at work at the same time; one a core by default.")
@click.option("--shard-size", type=int, help="Images in a shard file; 64 by default, fewer of large images.")
@json_option
def import_(
    source: Path,
    out: Path,
    split: str | None,
    licence: str | None,
    citation: str | None,
    workers: int | None,
    shard_size: int | None,
    as_json: bool,
) -> None:
    """Turn published 3DIdent or Causal3DIdent files into a dataset folder.

    SRC is a folder, a .tar or a compressed .tar in the layout of the Zenodo archives; nothing of it is unpacked to
    disk. Stray files are ignored. The same command continues an interrupted import.
    """
    from ident3d.loaders.layouts.importing import import_

    result = import_(
        source,
        out,
        split=split,
        licence=licence,
        citation=citation,
        workers=workers,
        shard_size=shard_size,
        show_progress=not as_json,
    )
    if as_json:
        click.echo(json.dumps(asdict(result) | {"path": str(result.path)}, indent=2))
    else:
        click.echo(f"{result.path}: {result.n:,} images, {result.imported:,} of them imported now")
