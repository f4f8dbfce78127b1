"""``ident3d bench metrics``."""

import json

import click

from ident3d.commands.options import json_option


@click.command(name="metrics")
@click.option("--shrink", default=1, show_default=True, type=click.IntRange(1, 100), help="Divide the rows by this.")
@json_option
def bench_metrics(shrink: int, as_json: bool) -> None:
    """Measure the scores' CPU seconds, and how many times a straightforward computation takes.

    Takes a few minutes; the limits are those of the full size.
    """
    from tqdm import tqdm

    from ident3d.bench.metrics import figures, table

    measured = list(tqdm(figures(shrink), unit="figure", disable=None))
    click.echo(json.dumps([figure.as_dict() for figure in measured], indent=2) if as_json else table(measured))
