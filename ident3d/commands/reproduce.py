"""``ident3d reproduce``."""

import json
from typing import Any

import click

from ident3d.commands.options import interruptible, option, options, show
from ident3d.commands.parameters import names


@click.command()
@click.argument("experiment", metavar="EXPERIMENT|FILE.toml")
@options(
    option("--profile", show_default="mini", help="Profile: paper (full size), or mini (for a CPU)."),
    option("--rows", multiple=True, metavar="ROW", type=names(), show_default="all",
           help="Only these rows, separated by commas; repeatable."),
    option("--seeds", show_default="0, or those that FILE.toml names"),
    option("--variant", "variants", multiple=True, type=names(), show_default="all",
           help="Only this variant of the profile; repeatable."),
    option("--validation", is_flag=True, help="Score on images for tuning instead of the test set's."),
    "--workers",
    "--device",
    option("--out", show_default="below the data root"),
    "--root",
    "--json",
)  # fmt: skip
def reproduce(
    experiment: str, rows: tuple[tuple[str, ...], ...], variants: tuple[tuple[str, ...], ...], as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Run a paper's experiment, or a table of your own, and write the table with the paper's numbers next to ours.

    On images: table4, causal3dident; missing datasets are rendered. On mixed latents: table1, table2, figure2,
    aninfonce-fig2, aninfonce-linear, hard-negatives, ensemble, dimension-batch; there --workers rows run at the same
    time. FILE.toml holds a table of your own: rows, seeds and data. Finished rows are skipped, and the same command
    continues where it was interrupted.

    \b
      ident3d reproduce table1                                    all rows, as many at once as there are cores
      ident3d reproduce table4                                    all small variants, about 8 hours on one core
      ident3d reproduce table4 --variant seven --rows box-normal  one row, about 15 minutes
      ident3d reproduce table4 --validation                       the same, on images for tuning
      ident3d reproduce table4 --profile paper --seeds 0,1,2      the paper's own size
      ident3d reproduce widths.toml                               a table of your own
    """
    from ident3d.reproduction.reproduce import reproduce

    with interruptible("the same command goes on from the last checkpoint."):
        folder, markdown = reproduce(
            experiment,
            # Both are lists of names, whether they were joined by commas or the option was repeated.
            rows=[name for names in rows for name in names],
            variants=[name for names in variants for name in names],
            # Progress goes to standard error, so that --json stands alone on standard output.
            say=lambda sentence: click.echo(sentence, err=True),
            **given,
        )
    table = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    show(table, as_json, f"{markdown}\nReport: {folder / 'report.html'}")
