"""The papers' losses on codes, as functions that return one value per anchor, to be averaged and minimised.

They need nothing else of this package: give them the codes of a researcher's own encoder.
"""

from ident3d.training.losses.aninfonce import Precision, an_info_nce
from ident3d.training.losses.contrastive import (
    alignment,
    alignment_uniformity,
    delta_contrastive,
    ensemble,
    hard_negatives,
    info_nce,
    two_view_info_nce,
    uniformity,
)
from ident3d.training.losses.gather import first_row, gather
from ident3d.training.losses.log_sum import log_sum_dot, log_sum_power
from ident3d.training.losses.regression import mean_squared_error, r2
from ident3d.training.losses.similarities import inner, minus_power, minus_quadratic

__all__ = [
    "Precision",
    "alignment",
    "alignment_uniformity",
    "an_info_nce",
    "delta_contrastive",
    "ensemble",
    "first_row",
    "gather",
    "hard_negatives",
    "info_nce",
    "inner",
    "log_sum_dot",
    "log_sum_power",
    "mean_squared_error",
    "minus_power",
    "minus_quadratic",
    "r2",
    "two_view_info_nce",
    "uniformity",
]
