"""``ident3d render``."""

import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ident3d.commands.options import Sectioned, option, options
from ident3d.commands.output import confirmed, interruptible, print_warnings, show
from ident3d.commands.parameters import FILE, StoreOrPath, assignment, json_or_text
from ident3d.commands.recipe_options import recipe_of, recipe_options
from ident3d.commands.sequence_options import sequence_options
from ident3d.machine import untried

if TYPE_CHECKING:
    from ident3d.farm.cluster import Cluster
    from ident3d.farm.estimate import Estimate

cluster_options = options(
    option("--scheduler", help="Render on the workers of this Dask scheduler: an address, or a scheduler file."),
    option("--tls-ca", type=FILE, help="Certificate authority of a tls:// scheduler."),
    option("--tls-cert", type=FILE, help="Your certificate for a tls:// scheduler."),
    option("--tls-key", type=FILE, help="The key of your certificate."),
    option("--cluster", "system",
           help=f"Start workers by slurm, pbs, sge, lsf or k8s{untried('pbs', 'lsf', 'k8s')}."),
    option("--jobs", type=int, help="With --cluster: how many jobs, of one render process each."),
    option("--cluster-option", "cluster_settings", multiple=True, metavar="NAME=VALUE",
           type=assignment("walltime=08:00:00", json_or_text),
           help="With --cluster: an option of its Dask class, as in walltime=08:00:00; repeatable."),
    section="Cluster",
)  # fmt: skip


def cluster_of(given: dict[str, Any]) -> "Cluster":
    """Return the Cluster that the options of `cluster_options` describe."""
    from ident3d.farm.cluster import Cluster

    own = {name: given[name] for name in ("scheduler", "tls_ca", "tls_cert", "tls_key", "system", "jobs")}
    return Cluster(**own, options=dict(given["cluster_settings"]))


@click.command(cls=Sectioned)
@options(
    option("--n", show_default="all rows of --latents"),
    option("--out", type=StoreOrPath(), show_default="named after the settings, below the data root"),
    "--root",
    option("--latents", type=click.Path(path_type=Path)),
    section="Dataset",
)
@recipe_options
@sequence_options
@options(
    "--workers",
    "--shard-size",
    option("--dry-run", is_flag=True, help="Render a few images, print expected time, disk and cost, write nothing."),
    option("--core-hour-price", default=0.04, help="For --dry-run: the price of a core-hour."),
    option("--fresh", is_flag=True, help="Delete the dataset that the folder holds, then start anew."),
    option("--yes", is_flag=True, help="Do not ask before --fresh deletes."),
    "--json",
    section="Run",
)
@cluster_options
def render(
    n: int | None, out: Path | str | None, root: Path | None, latents: Path | None, workers: int | None,
    shard_size: int | None, dry_run: bool, core_hour_price: float, fresh: bool, yes: bool, as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Render a dataset of images with known latents.

    Image i depends on the settings and on i alone. The same command continues what an interrupted run left, a larger
    --n grows a folder given by --out, and `ident3d verify` checks the result. --out may be an s3:// address. With
    --latents, the rows of the file are rendered; with --classes, images take the classes in turn.

    \b
      ident3d render --n 1000                                 a first look, some minutes
      ident3d render --n 250000                               the training set of 3DIdent
      ident3d render --n 25000 --split test                   its test set
      ident3d render --n 10000 --size 64 --fix rotation=0     a small study
      ident3d render --n 100000 --sequence 2 --sigma 0.1      50,000 exact pairs; docs/how-to/sequences.md
      ident3d render --n 100000 --views 2 --private hue       50,000 pairs that share all but hues; docs/how-to/views.md
      ident3d render --n 250000 --scheduler tls://host:8786   on a cluster; docs/how-to/cluster.md has recipes
    """
    recipe, cluster = recipe_of(given), cluster_of(given)
    # Before anything else: that the cluster's options agree and that bpy is installed.
    cluster.check()
    recipe.check()

    from ident3d.farm.estimate import estimate
    from ident3d.farm.render import render
    from ident3d.farm.request import make_request
    from ident3d.loaders.folders.folder import is_dataset

    where: dict[str, Any] = {"out": out, "root": root, "latents": latents, "workers": workers}
    if dry_run:
        # The estimate renders a few images here: a cluster's machines may be faster or slower.
        if not cluster.is_local:
            click.echo("Note: this is measured on this machine; nothing runs on the cluster.", err=True)
        with print_warnings():
            expected = estimate(n, recipe, fresh=fresh, **where)
        cost = expected.core_hours * core_hour_price
        text = f"{text_of(expected)}, {cost:.2f} at {core_hour_price:g} each"
        show(expected, as_json, text, cost=cost)
        return 0
    if fresh and not yes:
        # What it warns of is said once, by the rendering itself.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            path = make_request(n, recipe, is_local=cluster.is_local, **where).path
        if is_dataset(path) and not confirmed(f"Delete the dataset in {path}?"):
            raise click.ClickException(f"Nothing was deleted in {path}; --yes deletes without asking.")
    # Batch systems stop a job by SIGTERM: it is handled as Ctrl-C is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with interruptible("finished shards are kept, and the same command goes on from there."), print_warnings():
        done = render(n, recipe, shard_size=shard_size, fresh=fresh, cluster=cluster, **where)
    if as_json or done.complete:
        show(done, as_json, f"{done.path} is complete: {done.n:,} images, {done.rendered:,} of them rendered now.")
    # A shard that fails does not stop the others; all failures are listed at the end.
    for failure in done.failures:
        job = failure.job
        images = f"{job.first}-{job.first + job.count - 1}"
        click.echo(f"Shard {job.name} (images {images}) failed: {failure.reason}", err=True)
    if done.failures:
        missing = f"Shards missing in {done.path}: {len(done.failures)}"
        click.echo(f"{missing}; the others are kept, and the same command tries these again.", err=True)
    return 1 if done.failures else 0


def text_of(expected: "Estimate") -> str:
    """Return an estimate in lines, of which the last is open for the price."""
    free = "" if expected.free_bytes is None else f" of {expected.free_bytes / 1e9:.1f} GB free"
    return (
        f"{expected.images:,} images to {expected.path}\n"
        f"time  {duration(expected.hours * 3600)} with {expected.workers} workers here "
        f"({expected.seconds_per_image:.2f} s an image)\n"
        f"disk  {expected.bytes / 1e9:.2f} GB{free}\n"
        f"cost  {expected.core_hours:.1f} core-hours"
    )


def duration(seconds: float) -> str:
    """Return a time in the largest unit that makes it at least one: 12 s, 3.5 minutes, 27.1 hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"
