"""``ident3d bench scale``."""

import json
from dataclasses import asdict

import click

from ident3d.commands.options import json_option


@click.command(name="scale")
@click.option("--shards", default=10_000, show_default=True, help="Shards to hand out.")
@click.option("--images", "images_per_shard", default=4, show_default=True, help="Stub images in each.")
@click.option("--workers", default=2, show_default=True, help="Workers of the scheduler.")
@click.option("--listed", default=1_000_000, show_default=True, help="Shards in the largest manifest.")
@json_option
def bench_scale(shards: int, images_per_shard: int, workers: int, listed: int, as_json: bool) -> None:
    """Measure the farm at a cluster's scale, with stub images.

    A real scheduler hands out thousands of shards; the run is broken off in the middle and resumed.
    """
    from ident3d.bench.scale import bench_scale

    result = bench_scale(shards=shards, images_per_shard=images_per_shard, workers=workers, listed=listed)
    click.echo(json.dumps(asdict(result), indent=2) if as_json else result.table())
