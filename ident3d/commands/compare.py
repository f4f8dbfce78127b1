"""``ident3d compare``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import option, options
from ident3d.commands.output import show
from ident3d.commands.parameters import FILE, FOLDER


@click.command()
@click.argument("paths", metavar="RUN...", nargs=-1, required=True, type=FOLDER)
@options(
    "--metrics",
    "--plot",
    option("--csv", type=FILE, help="Write a line for each run here, as CSV."),
    "--json",
)
def compare(paths: tuple[Path, ...], metrics: Any, plot: Path | None, csv: Path | None, as_json: bool) -> None:
    """Compare runs: scores with their spread over seeds, and the settings that differ.

    Runs that differ in their seed alone are one group. RUN is a run's folder, or a folder of runs. Scores are those
    that `ident3d evaluate` has written; by default R² and MCC.

    \b
      ident3d compare data/runs
      ident3d compare sphere box --metrics all --csv scores.csv --plot scores.png
    """
    from ident3d.training.runs.comparison import compare

    found = compare(paths, metrics=metrics)
    if plot is not None:
        found.plot(plot)
    if csv is not None:
        found.write_csv(csv)
    show(found, as_json)
