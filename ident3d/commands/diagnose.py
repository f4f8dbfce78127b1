"""``ident3d diagnose``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import dataset_argument, option, options
from ident3d.commands.output import show
from ident3d.commands.parameters import FOLDER, StoreOrPath


@click.command()
@dataset_argument
@options(
    "--augment",
    option("--run", type=click.Path(path_type=Path), show_default="principal components of the pixels",
           help="Run whose encoder gives the codes, such as a VAE's."),
    option("--test", type=StoreOrPath(), metavar="DIR",
           show_default="the matching test set beside DIR, else a fifth of its images",
           help="Dataset folder whose images the classifier is scored on."),
    option("--n", show_default="all"),
    option("--views", default=300),
    option("--steps", default=500),
    option("--size", show_default="that of the run, or as stored"),
    option("--encoder", metavar="package.module:name", show_default="the run's, unless it is your own code"),
    option("--out", type=FOLDER, show_default="DIR-diagnosis beside the dataset"),
    "--device",
    "--seed",
    "--json",
)  # fmt: skip
def diagnose(directory: Path | str, as_json: bool, **given: Any) -> None:
    """Say what augmentations do to your own images: overlap, the conditional, views beside originals.

    Overlap is the share of anchors whose nearest batch member is not their positive. The conditional is tested for
    normality in codes of many views of one image. A small network is trained to tell views from images as they are, and
    scored on those of a test set. Theory has no overlap, a normal conditional, and an accuracy of one half.
    Writes the figures and a picture of each.

    \b
      ident3d diagnose data/mnist/train --augment crop-medium             codes are principal components
      ident3d diagnose data/mnist/train --augment crop-medium --run vae   those of a VAE
      ident3d diagnose data/cifar10/train --augment simclr --steps 6000   a better classifier
    """
    from ident3d.training.diagnostics.diagnosis import diagnose

    show(diagnose(directory, **given), as_json)
