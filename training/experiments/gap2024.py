"""InfoNCE: Identifying the Gap Between Theory and Practice (2024), appendix H: TriCL, overlap, mismatched marginals.

The paper shows curves and no figures; dimensions and Λ of `tricl` are its own, all else is ours.

    command                                cost               expected table
    ident3d reproduce tricl                27 CPU minutes     results/tricl-mini
    ident3d reproduce overlap              16 CPU minutes     results/overlap-mini
    ident3d reproduce marginal-mismatch    8 CPU minutes      results/marginal-mismatch-mini
"""

from collections.abc import Iterator
from dataclasses import replace
from math import log2
from typing import Any, Final

from ident3d.training.experiments.aninfonce2024 import GAP, PAPER
from ident3d.training.experiments.experiment import (
    MINI_MIXING,
    TWENTY_MIXING,
    TWENTY_SUPERVISED,
    Plot,
    Row,
    on_mixed_latents,
)

# Losses by row, with the τ of TriCL's code; of its two forms the second weighs the first views alone.
LOSSES: Final[dict[str, dict[str, Any]]] = {
    "aninfonce": {},
    "tricl": {"loss": "tricl", "tau": 0.2},
    "tricl-released": {"loss": "tricl-released", "tau": 0.2},
}
TRICL_LAMBDAS: Final = {"100": (100.0,), "15-250": (250.0, 15.0)}

TRICL: Final = on_mixed_latents(
    PAPER, name="tricl",
    title=f"AnInfoNCE and TriCL with 20 latents, Λ = 100 for all, or 15 and 250 by halves: Figure 12 of {GAP}",
    columns=("R²", "MCC", "R² content", "R² style", "overlap", "identity R²", "supervised R²"),
    rows=[
        Row(f"{loss}-{name}", {"lambdas": (lambdas,), "dim": 20} | change, {})
        for name, lambdas in TRICL_LAMBDAS.items()
        for loss, change in LOSSES.items()
    ],
    steps=20_000,
    mini=replace(TWENTY_MIXING, lambda_lr=4e-2), supervised_steps=TWENTY_SUPERVISED,
    notes="The paper plots R² over training and prints no figure: the curves are in report.html. tricl is the "
    "tri-factor loss as TriCL's paper has it, with the diagonal on every anchor; there unit codes are stretched by √d "
    "before they are to be uncorrelated, which is ours. tricl-released weighs the first views alone, and leaves codes "
    "unstretched, as its code does. Both have τ = .2 and decorrelation of weight 1.",
)  # fmt: skip

DIMS: Final = (5, 10, 20)
BATCHES: Final = (64, 256, 1024)
PRECISIONS: Final = (15.0, 25.0, 75.0)


def _name(dim: int, batch: int, precision: float) -> str:
    return f"d{dim}-b{batch}-l{precision:g}"


def _plots() -> Iterator[Plot]:
    """Yield R² and overlap over the batch, and over Λ, a curve for each dimension."""
    for column in ("R²", "overlap"):
        over_batch = {
            f"d = {dim}": (column, {_name(dim, batch, PRECISIONS[1]): log2(batch) for batch in BATCHES}) for dim in DIMS
        }
        yield Plot(f"{column} over log₂ of the batch; Λ = {PRECISIONS[1]:g}", over_batch, log2(BATCHES[1]))
        over_lambda = {
            f"d = {dim}": (column, {_name(dim, BATCHES[1], value): log2(value) for value in PRECISIONS}) for dim in DIMS
        }
        yield Plot(f"{column} over log₂ Λ; batches of {BATCHES[1]}", over_lambda, log2(PRECISIONS[1]))


OVERLAP: Final = on_mixed_latents(
    PAPER, name="overlap",
    title=f"AnInfoNCE with one Λ for all latents, over dimension, batch and Λ: Figures 4, 8 and 9 of {GAP}",
    columns=("R²", "overlap", "identity R²", "supervised R²"),
    rows=[
        Row(_name(dim, batch, precision), {"dim": dim, "batch": batch, "lambdas": ((precision,),)}, {})
        for dim in DIMS for batch in BATCHES for precision in PRECISIONS
        # The largest batch is for the curve over batches alone: its steps take most of the time.
        if batch < BATCHES[-1] or precision == PRECISIONS[1]
    ],
    steps=5_000,
    mini=replace(MINI_MIXING, encoder="256x3", lambda_lr=5e-2), supervised_steps=TWENTY_SUPERVISED,
    notes="Overlap is the share of anchors whose nearest batch member is not their positive, of the latents "
    "themselves; the measure is ours. The paper plots its R² and prints no figure. Dimensions and batches are ours, "
    "and so is Λ = 15.",
    plots=tuple(_plots()),
)  # fmt: skip

KAPPAS: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)
MISMATCH: Final = on_mixed_latents(
    PAPER, name="marginal-mismatch",
    title=f"Trained around one pole, scored around the other: Figure 6 of {GAP}",
    columns=("R²", "R² other pole", "domain accuracy", "identity R²", "supervised R²"),
    rows=[
        Row(f"kappa{kappa:g}", {"lambdas": ((25.0,),), "marginal": "vmf", "marginal_kappa": kappa}, {})
        for kappa in KAPPAS
    ],
    steps=12_000,
    notes="Anchors are von Mises-Fisher with concentration κ around a pole, in training; R² other pole is that of "
    "anchors around the opposite one. Domain accuracy is the held-out accuracy of a logistic regression, which is the "
    "best that there is for these two distributions, on latents of either. κ, Λ = 25, ten latents and the classifier "
    "are ours; the paper plots and prints no figure.",
    plots=(Plot(
        "over κ",
        {column: (column, {f"kappa{kappa:g}": kappa for kappa in KAPPAS})
         for column in ("R²", "R² other pole", "domain accuracy")},
        KAPPAS[2],
    ),),
)  # fmt: skip

EXPERIMENTS: Final = (TRICL, OVERLAP, MISMATCH)
