"""``ident3d bench losses``."""

import json
from dataclasses import asdict

import click

from ident3d.commands.options import json_option


@click.command(name="losses")
@click.option("--pairs", default=4096, show_default=True, help="Pairs in the batch.")
@click.option("--dim", default=10, show_default=True, help="Dimensions of the codes.")
@click.option("--threads", default=1, show_default=True, help="Threads that torch may use.")
@click.option("--repeats", default=3, show_default=True, help="Repeats of each measurement; the fastest counts.")
@json_option
def bench_losses(pairs: int, dim: int, threads: int, repeats: int, as_json: bool) -> None:
    """Measure time and memory of the contrastive losses against the form that holds all differences at once."""
    from ident3d.bench.losses import bench_losses

    result = bench_losses(pairs=pairs, dim=dim, threads=threads, repeats=repeats)
    click.echo(json.dumps(asdict(result), indent=2) if as_json else result.table())
