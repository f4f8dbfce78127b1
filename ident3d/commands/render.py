"""``ident3d render``."""

import json
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import (
    Place,
    cluster_of,
    cluster_options,
    json_option,
    recipe_of,
    recipe_options,
    root_option,
    telling_warnings,
)


@click.command()
@click.option("--n", type=int, help="How many images; with --latents, all of the file's rows by default.")
@recipe_options
@click.option("--out", type=Place(), help="The dataset's folder, or s3:// address; else named after the settings.")
@root_option
@click.option("--latents", type=click.Path(path_type=Path), help="Render the rows of this .npy file of raw latents.")
@click.option("--workers", type=int, help="Render processes at work at the same time; one a core by default.")
@click.option("--shard-size", type=int, help="Images in a shard file; 64 by default, fewer of large images.")
@click.option("--dry-run", is_flag=True, help="Render a few images, print expected time, disk and cost, write nothing.")
@click.option("--core-hour-price", default=0.04, show_default=True, help="For --dry-run: the price of a core-hour.")
@click.option("--fresh", is_flag=True, help="Delete the dataset that the folder holds, then start anew.")
@click.option("--yes", is_flag=True, help="Do not ask before --fresh deletes.")
@cluster_options
@json_option
def render(
    n: int | None,
    out: Path | str | None,
    root: Path | None,
    latents: Path | None,
    workers: int | None,
    shard_size: int | None,
    dry_run: bool,
    core_hour_price: float,
    fresh: bool,
    yes: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Render a dataset of images with known latents.

    Image i depends on the settings and on i alone. The same command continues what an interrupted run left, a larger
    --n grows a folder given by --out, and `ident3d verify` checks the result.

    \b
      ident3d render --n 1000                                 a first look, some minutes
      ident3d render --n 250000                               the training set of 3DIdent
      ident3d render --n 25000 --split test                   its test set
      ident3d render --n 10000 --size 64 --fix rotation=0     a small study
      ident3d render --n 250000 --scheduler tls://host:8786   on a cluster; docs/how-to/cluster.md has recipes
    """
    recipe, cluster = recipe_of(settings), cluster_of(settings)
    cluster.check()
    recipe.check()  # first of all that bpy is there

    from ident3d.farm.estimate import estimate
    from ident3d.farm.render import render
    from ident3d.farm.request import order
    from ident3d.loaders.folders.folder import is_dataset

    if dry_run:
        if not cluster.is_local:
            click.echo(
                "Note: this is measured on this machine; the cluster is not asked, and nothing runs there.", err=True
            )
        expected = estimate(n, recipe, out=out, root=root, latents=latents, workers=workers, fresh=fresh)
        cost = expected.core_hours * core_hour_price
        free = "" if expected.free_bytes is None else f" of {expected.free_bytes / 1e9:.1f} GB free"
        if as_json:
            click.echo(json.dumps(asdict(expected) | {"path": str(expected.path), "cost": cost}))
        else:
            click.echo(
                f"{expected.images:,} images to {expected.path}\n"
                f"time  {duration(expected.hours * 3600)} with {expected.workers} workers here "
                f"({expected.seconds_per_image:.2f} s an image)\n"
                f"disk  {expected.bytes / 1e9:.2f} GB{free}\n"
                f"cost  {expected.core_hours:.1f} core-hours, {cost:.2f} at {core_hour_price:g} each"
            )
        return 0
    if fresh and not yes:
        path = order(n, recipe, out=out, root=root, latents=latents, workers=workers, here=cluster.is_local).path
        if is_dataset(path):
            try:
                sure = click.confirm(f"Delete the dataset in {path}?", err=True)
            except click.Abort:
                sure = False
            if not sure:
                raise click.ClickException(f"Nothing was deleted in {path}; --yes deletes without asking.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's stop is a Ctrl-C
    try:
        with telling_warnings():
            done = render(
                n,
                recipe,
                out=out,
                root=root,
                latents=latents,
                workers=workers,
                shard_size=shard_size,
                fresh=fresh,
                cluster=cluster,
            )
    except KeyboardInterrupt:
        click.echo("\nInterrupted. Finished shards are kept; the same command goes on from there.", err=True)
        return 130
    if as_json:
        click.echo(json.dumps(asdict(done) | {"path": str(done.path)}))
    elif done.complete:
        click.echo(f"{done.path} is complete: {done.n:,} images, {done.rendered:,} of them rendered now.")
    for failure in done.failures:
        job = failure.job
        click.echo(
            f"Shard {job.name} (images {job.first}-{job.first + job.count - 1}) failed: {failure.reason}", err=True
        )
    if done.failures:
        click.echo(f"Shards missing in {done.path}: {len(done.failures)}; the same command tries them again.", err=True)
    return 1 if done.failures else 0


def duration(seconds: float) -> str:
    """A time in the largest unit that makes it at least one: 12 s, 3.5 minutes, 27.1 hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"
