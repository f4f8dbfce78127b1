"""``ident3d bench render``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import json_option


@click.command(name="render")
@click.option("--scenes", default=8, show_default=True, help="How many scenes to render in every preset.")
@click.option("--qualities", default="reference,standard,draft", show_default=True, help="The presets to compare.")
@click.option("--size", default=224, show_default=True, help="Side of the square images in pixels.")
@click.option(
    "--pictures",
    type=click.Path(path_type=Path),
    help="Compare with the pictures of this folder (raw_latents.npy, 00.png, 01.png, …) instead of 1024 samples.",
)
@json_option
def bench_render(scenes: int, qualities: str, size: int, pictures: Path | None, as_json: bool) -> None:
    """Measure each quality preset's cost and error.

    The same scenes are rendered in every preset by one thread, and once with 1024 samples, without denoising and with
    other noise, as the truth. That takes some minutes: most of it is the truth and `reference`.
    """
    from ident3d.bench.render import bench_render, given_pictures

    names = qualities.split(",")
    if pictures is None:
        result = bench_render(scenes=scenes, qualities=names, size=size)
    else:
        latents, truth = given_pictures(pictures)
        result = bench_render(scenes=latents, qualities=names, size=truth.shape[1], truth=truth)
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else result.table())
