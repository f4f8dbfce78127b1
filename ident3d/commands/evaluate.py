"""``ident3d evaluate``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import option, options, run_argument, show
from ident3d.commands.parameters import StoreOrPath


@click.command()
@run_argument
@options(
    option("--data", type=StoreOrPath(), show_default="the matching test set", help="Dataset folder to score on."),
    "--metrics",
    option("--n", "count", default=4096),
    option(
        "--bn-batch-stats", is_flag=True, help="Use each batch's statistics in batch norm, as the public code does."
    ),
    "--allow-same",
    option("--encoder", show_default="the run's, unless it is your own code"),
    "--device",
    "--seed",
    "--root",
    "--json",
)
def evaluate(run: Path, data: Path | str | None, as_json: bool, **given: Any) -> None:
    """Score a run on held-out images, the first N of the dataset.

    Prints and writes every score, with the values per latent, and renews the run's report.

    \b
      ident3d evaluate RUN                          on the matching test set, beside the training set
      ident3d evaluate RUN --data DIR --n 1024      on the first 1,024 images of another folder
      ident3d evaluate RUN --metrics all            all scores
    """
    from ident3d.training.images.evaluate import evaluate
    from ident3d.training.report.report import write_report

    found = evaluate(run, data, **given)
    # The report shows the newest scores, so it is written again.
    report = write_report(run, found)
    show(found, as_json, f"{found.table()}\n\nReport: {report}")
