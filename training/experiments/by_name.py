"""All experiments by the name that `ident3d reproduce` takes."""

from typing import Final

from ident3d.training.experiments import (
    aninfonce2024,
    augmentations2024,
    gap2024,
    icml2021,
    neurips2021,
    vaemnist2024,
    workshop2021,
)
from ident3d.training.experiments.experiment import Experiment

EXPERIMENTS: Final[dict[str, Experiment]] = {
    experiment.name: experiment
    for paper in (icml2021, workshop2021, neurips2021, aninfonce2024, vaemnist2024, augmentations2024, gap2024)
    for experiment in paper.EXPERIMENTS
}
