"""``ident3d reproduce``."""

import json
from typing import Any

import click

from ident3d.commands.options import option, options
from ident3d.commands.output import interruptible, show
from ident3d.commands.parameters import names


@click.command()
@click.argument("experiment", metavar="EXPERIMENT|FILE.toml")
@options(
    option("--profile", show_default="mini", help="Profile: paper (full size), or mini (for a CPU)."),
    option("--rows", type=names(), default=(), show_default="all", help="Only these rows."),
    option("--seeds", show_default="0, or those that FILE.toml names"),
    option("--variant", "variants", type=names(), default=(), show_default="all",
           help="Only these variants of the profile."),
    option("--validation", is_flag=True, help="Score on images for tuning instead of the test set's."),
    "--workers",
    "--device",
    option("--out", show_default="below the data root"),
    "--root",
    "--json",
)  # fmt: skip
def reproduce(experiment: str, as_json: bool, **given: Any) -> None:
    """Make a paper's table, its numbers next to ours, or a table of your own.

    On images: table4, causal3dident, workshop-dsprites, workshop-natural, whose missing datasets are rendered or
    generated; kitti, on images that `ident3d import kitti-masks` has put into the folder kitti below the data root;
    cifar10-readout and minimal-change, on what `ident3d datasets fetch` brings; imagenet-readout, on pictures that
    `ident3d import --folder` has put into imagenet/train and imagenet/test. On mixed latents: table1, table2, figure2,
    aninfonce-fig2, aninfonce-linear, hard-negatives, ensemble, dimension-batch, tricl, overlap, marginal-mismatch, and
    vae-mnist, where a decoder makes images of them; there --workers rows run at the same time. FILE.toml holds a table
    of your own: rows, seeds and data. Finished rows are skipped, and the same command continues where it was
    interrupted.

    \b
      ident3d reproduce table1                                    all rows, as many at once as there are cores
      ident3d reproduce table4                                    all small variants, estimated at 10 hours on one core
      ident3d reproduce table4 --variant seven --rows box-normal  one row, about 15 minutes
      ident3d reproduce table4 --validation                       the same, on images for tuning
      ident3d reproduce table4 --profile paper --seeds 0,1,2      the paper's own size
      ident3d reproduce kitti --rows laplace-1,slowvae-1          two rows, 8 CPU minutes
      ident3d reproduce widths.toml                               a table of your own
    """
    from ident3d.reproduction.reproduce import reproduce

    with interruptible("the same command goes on from the last checkpoint."):
        folder, markdown = reproduce(
            experiment,
            # Progress goes to standard error, so that --json stands alone on standard output.
            say=lambda sentence: click.echo(sentence, err=True),
            **given,
        )
    table = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    show(table, as_json, f"{markdown}\nReport: {folder / 'report.html'}")
