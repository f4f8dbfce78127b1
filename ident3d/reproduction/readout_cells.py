"""Cells that are scored by what is read out of their features: the class, what was augmented, a VAE's codes."""

from pathlib import Path
from typing import Any

import numpy as np

from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.metrics import linear_r2
from ident3d.reproduction.autoencoder import run_of
from ident3d.reproduction.cells import Cell
from ident3d.training.diagnostics.readout import FITTED, SCORED, read_out
from ident3d.training.experiments.experiment import CODES, Experiment, ImageVariant
from ident3d.training.images.encode import codes_of
from ident3d.training.images.run import Run, open_run, trained_encoder


def readout_figures(
    experiment: Experiment, cell: Cell[ImageVariant], run: Run, trained: Path, scored: Path, **options: Any
) -> dict[str, float]:
    """Return a run's figures: accuracies of the backbone's features, and those of codes under names that say so.

    With an autoencoder, R² is that of its codes, by a linear map of the run's.
    """
    fitted, counted = (max(1, round(cell.variant.fraction * count)) for count in (FITTED, SCORED))
    found = read_out(
        run, scored, experiment.readout, data=trained, fitted=fitted, scored=counted, encoder=run.settings.encoder,
        seed=cell.seed, **options,
    )  # fmt: skip
    figures = {**found.backbone, **{f"{name}{CODES}": value for name, value in found.codes.items()}}
    if cell.variant.autoencoder:
        inferred = open_run(run_of(cell.variant, cell.folder.parents[1]))
        first, second = (
            [codes_of_first(each, folder, count, **options) for each in (inferred, run)]
            for folder, count in ((trained, fitted), (scored, counted))
        )
        figures["R²"] = float(linear_r2(first[0], first[1], test=(second[0], second[1])))
    return figures


def codes_of_first(run: Run, folder: Path, count: int, *, device: str, show_progress: bool) -> Any:
    """Return a run's codes of the first images of a folder."""
    images = ImageDataset(folder)
    model, _ = trained_encoder(run, run.settings.encoder)
    return codes_of(run, model, images, np.arange(min(count, len(images))), device, False, show_progress)
