"""``ident3d encode``."""

from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, option, options, run_argument


@click.command()
@run_argument
@dataset_argument
@options(
    option("--out", show_default="a .npy file in the run's folder"),
    option("--encoder", metavar="package.module:name", show_default="the run's, unless it is your own code"),
    "--device",
)
def encode(run: Path, directory: Path | str, out: Path | None, encoder: str | None, device: str) -> None:
    """Write a run's codes of all images of a dataset.

    The codes come in the images' order, float32, (images, codes), to a .npy or .h5 file; an .h5 file holds the raw
    latents as well.
    """
    from ident3d.training.images.encode import encode

    click.echo(f"Codes: {encode(run, directory, out, encoder=encoder, device=device)}")
