"""``ident3d bench farm``."""

import json
from dataclasses import asdict
from typing import Any

import click

from ident3d.commands.options import json_option, recipe_of, recipe_options


@click.command(name="farm")
@click.option("--workers", default="1,2", show_default=True, help="Numbers of workers to compare.")
@click.option("--n", "images", default=60, show_default=True, help="Images that each worker renders.")
@click.option("--scheduler", is_flag=True, help="Compare with plain processes, and with a scheduler's workers.")
@recipe_options
@json_option
def bench_farm(workers: str, images: int, scheduler: bool, as_json: bool, **recipe_settings: Any) -> None:
    """Measure how the render farm scales with workers, and whether a worker's memory stays flat."""
    from ident3d.bench.farm import bench_farm
    from ident3d.errors import UserError

    try:
        numbers = [int(number) for number in workers.split(",")]
    except ValueError:
        raise UserError(f"--workers takes numbers separated by commas, as in 1,2, not {workers!r}.") from None
    result = bench_farm(recipe_of(recipe_settings), workers=numbers, images=images, scheduler=scheduler)
    click.echo(json.dumps(asdict(result), indent=2) if as_json else result.table())
