"""``ident3d bench shards``."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, json_option


@click.command(name="shards")
@dataset_argument
@click.option("--n", "images", default=64, show_default=True, help="How many of the dataset's images to measure on.")
@json_option
def bench_shards(directory: Path | str, images: int, as_json: bool) -> None:
    """Measure what a stored image costs under each HDF5 filter: bytes, encoding and decoding."""
    from ident3d.bench.shards import bench_shards

    result = bench_shards(directory, images=images)
    click.echo(json.dumps(asdict(result), indent=2) if as_json else result.table())
