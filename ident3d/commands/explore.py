"""``ident3d explore``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import option, options
from ident3d.commands.output import show
from ident3d.commands.parameters import FILE, StoreOrPath


@click.command()
@click.argument("path", metavar="DIR|RUN", type=StoreOrPath())
@options(
    option("--out", type=FILE, show_default="DIR-explore.html next to the dataset, or explore.html in the run"),
    option("--n", "count", show_default="2,000, fewer if they are large"),
    option("--size", show_default="as stored, at most 128"),
    option("--data", show_default="the matching test set, else the training set"),
    option("--encoder", metavar="package.module:name", show_default="the run's, unless it is your own code"),
    "--device",
    "--root",
    "--json",
)
def explore(path: Path | str, as_json: bool, **given: Any) -> None:
    """Write one page to look around in a dataset or a run.

    A slider for each latent shows the nearest image as it moves. A run's page shows codes beside latents, and images
    along any of them. The page holds all that it shows, less than 20 MB, and opens in any browser.

    \b
      ident3d explore data/train --out look.html
      ident3d explore RUN                          codes of the matching test set
      ident3d explore RUN --data DIR --n 5000      of more images of another folder
    """
    from ident3d.training.explorer.explore import explore

    found = explore(path, show_progress=not as_json, **given)
    show(found, as_json, found.text())
