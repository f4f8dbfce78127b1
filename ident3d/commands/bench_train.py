"""``ident3d bench train``."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from ident3d.commands.options import dataset_argument, json_option


@click.command(name="train")
@dataset_argument
@click.option("--batch", default=64, show_default=True, help="Pairs in a step.")
@click.option("--steps", default=6, show_default=True, help="Steps of each loop; the fastest counts.")
@click.option("--threads", default=1, show_default=True, help="Threads that torch may use.")
@click.option("--encoder", default="resnet18", show_default=True, help="resnet18, 34, 50, or package.module:name.")
@json_option
def bench_train(directory: Path | str, batch: int, steps: int, threads: int, encoder: str, as_json: bool) -> None:
    """Measure a training step of the default loop against the plain loop of the public code, on the CPU."""
    from ident3d.bench.train import bench_train

    found = bench_train(directory, batch=batch, steps=steps, threads=threads, encoder=encoder)
    figures = asdict(found) | {"faster": found.faster, "loader_share": found.loader_share}
    click.echo(json.dumps(figures, indent=2) if as_json else found.table())
