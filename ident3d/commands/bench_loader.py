"""``ident3d bench loader``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, json_option


@click.command(name="loader")
@dataset_argument
@click.option("--batch", default=256, show_default=True, help="Pairs in a batch.")
@click.option("--batches", default=8, show_default=True, help="Measured batches for each variant.")
@click.option("--search-images", default=250_000, show_default=True, help="Latents to search among; 0 for no search.")
@click.option("--opening-images", default=250_000, show_default=True, help="Images of the set to open; 0 for none.")
@json_option
def bench_loader(
    directory: Path | str, batch: int, batches: int, search_images: int, opening_images: int, as_json: bool
) -> None:
    """Measure loading of pairs against one PNG at a time, the pair search, and the opening of a large dataset.

    Packs the dataset if it is not packed. The large dataset is synthetic and is written to the temporary folder: 6 GB
    for 250,000 images of 224x224.
    """
    from ident3d.bench.loader import bench_loader

    result = bench_loader(
        directory, batch=batch, batches=batches, search_images=search_images, opening_images=opening_images
    )
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else result.table())
