"""``ident3d bench classes``."""

import json
from dataclasses import asdict

import click

from ident3d.commands.options import json_option


@click.command(name="classes")
@click.option("--images", default=12, show_default=True, help="How many images of each class to render.")
@click.option("--quality", default="standard", show_default=True, help="The preset to render them in.")
@click.option("--size", default=224, show_default=True, help="Side of the square images in pixels.")
@json_option
def bench_classes(images: int, quality: str, size: int, as_json: bool) -> None:
    """Measure what an image of each class of Causal-3DIdent costs next to one of the teapot."""
    from ident3d.bench.classes import bench_classes

    result = bench_classes(images=images, quality=quality, size=size)
    click.echo(json.dumps(asdict(result), indent=2) if as_json else result.table())
