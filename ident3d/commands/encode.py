"""``ident3d encode``."""

from pathlib import Path

import click

from ident3d.commands.options import Place


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("directory", metavar="DIR", type=Place())
@click.option("--out", type=click.Path(path_type=Path), help="A .npy or .h5 file; in the run's folder by default.")
@click.option("--encoder", help="The run's encoder, where it is your own: package.module:name.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps, or auto.")
def encode(run: Path, directory: Path | str, out: Path | None, encoder: str | None, device: str) -> None:
    """Write a run's codes of all images of a dataset.

    The codes come in the images' order, float32, (images, codes); an .h5 file holds the raw latents as well.
    """
    from ident3d.training.images.evaluate import encode

    click.echo(f"Codes: {encode(run, directory, out, encoder=encoder, device=device)}")
