"""``ident3d bench mixing``."""

import json
from dataclasses import asdict

import click

from ident3d.commands.options import json_option


@click.command(name="mixing")
@click.option("--batch", default=6144, show_default=True, help="Pairs in a step; the plain loop holds its square.")
@click.option("--dim", default=10, show_default=True, help="Number of latents.")
@click.option("--encoder", default="papers", show_default=True, help="papers, or hidden widths such as 256x4.")
@click.option("--steps", default=3, show_default=True, help="Steps of each loop; the fastest counts.")
@click.option("--threads", default=1, show_default=True, help="Threads that torch may use.")
@json_option
def bench_mixing(batch: int, dim: int, encoder: str, steps: int, threads: int, as_json: bool) -> None:
    """Measure a step on mixed latents against the loop that holds all B×B×d differences, on the CPU."""
    from ident3d.bench.mixing import bench_mixing

    found = bench_mixing(batch=batch, dim=dim, encoder=encoder, steps=steps, threads=threads)
    click.echo(json.dumps(asdict(found), indent=2) if as_json else found.table())
