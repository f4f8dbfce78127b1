"""Identifiability scores: plain functions on two arrays, true latents z (N, d) and codes h (N, k).

Every function returns a small frozen result: `float(result)` is the headline, the fields are the detail.
"""

from ident3d.metrics.augmentation import AugmentationReadout, augmentation_readout
from ident3d.metrics.betavae import BetaVae, beta_vae_from_pairs, beta_vae_score
from ident3d.metrics.blocks import BlockR2, block_identifiability
from ident3d.metrics.catalogue import CATALOGUE
from ident3d.metrics.classifiers import ClassAccuracy, Explicitness, class_accuracy, explicitness
from ident3d.metrics.correlation import Mcc, mcc
from ident3d.metrics.dci_importance import Dci, concentration, dci
from ident3d.metrics.factors import Kind
from ident3d.metrics.factorvae import FactorVae, factor_vae_from_batches, factor_vae_score
from ident3d.metrics.information import Mig, Modularity, mig, modularity
from ident3d.metrics.kernel import KernelRidgeR2, kernel_ridge_r2
from ident3d.metrics.linear import FitResidual, LinearR2, affine_residual, linear_r2, orthogonal_residual
from ident3d.metrics.periodic import PeriodicR2, circular_correlation, periodic_r2
from ident3d.metrics.picture import correlation_picture
from ident3d.metrics.report import Report
from ident3d.metrics.resampling import Interval, bootstrap, bootstrap_accuracy, bootstrap_predictions
from ident3d.metrics.result import Score
from ident3d.metrics.sap_gap import Sap, sap, sap_discrete
from ident3d.metrics.scoring import score

__all__ = [
    "CATALOGUE",
    "AugmentationReadout",
    "BetaVae",
    "BlockR2",
    "ClassAccuracy",
    "Dci",
    "Explicitness",
    "FactorVae",
    "FitResidual",
    "Interval",
    "KernelRidgeR2",
    "Kind",
    "LinearR2",
    "Mcc",
    "Mig",
    "Modularity",
    "PeriodicR2",
    "Report",
    "Sap",
    "Score",
    "affine_residual",
    "augmentation_readout",
    "beta_vae_from_pairs",
    "beta_vae_score",
    "block_identifiability",
    "bootstrap",
    "bootstrap_accuracy",
    "bootstrap_predictions",
    "circular_correlation",
    "class_accuracy",
    "concentration",
    "correlation_picture",
    "dci",
    "explicitness",
    "factor_vae_from_batches",
    "factor_vae_score",
    "kernel_ridge_r2",
    "linear_r2",
    "mcc",
    "mig",
    "modularity",
    "orthogonal_residual",
    "periodic_r2",
    "sap",
    "sap_discrete",
    "score",
]
