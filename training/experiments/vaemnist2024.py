"""VAE-MNIST of InfoNCE: Identifying the Gap Between Theory and Practice (2024), section 4 and appendix F.

Latents on a sphere become images of digits by the decoder of a VAE that is trained on MNIST first. What the paper does
not say is ours: all widths, the VAE's optimiser and batch, the encoders' optimisers, batches and steps, τ = 1 of
InfoNCE, the three Λ₂, and k = 200 by cosine with τ = 0.1 for the neighbours of real images.

    command                                          cost
    ident3d datasets fetch mnist                     11 MB
    ident3d reproduce vae-mnist                      see results/vae-mnist-mini
    ident3d reproduce vae-mnist --profile paper      never run here
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ident3d.training.experiments.aninfonce2024 import GAP, PLAIN, linear
from ident3d.training.experiments.experiment import MINI_MIXING, Experiment, Figure, Plot, Row, on_mixed_latents
from ident3d.training.images.settings import TrainSettings
from ident3d.training.mixing.settings import MixingSettings

# Three fully connected layers each way. β = 2 of our loss, 2 rec + β KL, is the usual VAE; 469 steps are an epoch.
EPOCH: Final = 469
VAE: Final = TrainSettings(
    loss="betavae", beta=2.0, encoder="512x2", dim=10, cond="augment", augment="none", batch=128, steps=50 * EPOCH,
    lr=1e-3, dtype="fp32",
)  # fmt: skip
PAPER: Final = MixingSettings(encoder="512x2", batch=1000, steps=100_000)
MINI_VAE: Final = replace(VAE, encoder="256x2", steps=20 * EPOCH)
MINI: Final = replace(MINI_MIXING, encoder="512x2", whiten=False, lr=1e-3, batch=512)

# Λ₁ = 5 on five latents, and three Λ₂ on the other five; the paper does not print its three.
SECONDS: Final = (10.0, 25.0, 50.0)
LINEAR: Final = {"5-50": (99.7, 77.4), "5-200": (99.6, 76.3)}


def _rows() -> Iterator[Row]:
    """Yield both losses at each Λ."""
    settings: dict[str, tuple[float, ...]] = {f"{second:g}": (5.0, second) for second in SECONDS}
    settings |= {"5-50": linear(5, 50), "5-200": linear(5, 200)}
    for name, lambdas in settings.items():
        paper: list[dict[str, Figure]] = [{"R²": (value, 0.0)} for value in LINEAR.get(name, ())] or [{}, {}]
        yield Row(f"aninfonce-{name}", {"lambdas": (lambdas,)}, paper[0])
        yield Row(f"infonce-{name}", {"lambdas": (lambdas,)} | PLAIN, paper[1])


VAE_MNIST: Final = on_mixed_latents(
    PAPER, name="vae-mnist",
    title=f"VAE-MNIST: latents decoded to digits, Λ₁ = 5 with Λ₂, and linearly spaced Λ. {GAP}",
    columns=("R²", "R² content", "R² style", "kNN", "Λ̂ off", "identity R²", "supervised R²"),
    rows=_rows(),
    steps=10_000,
    mini=MINI,
    autoencoders={"paper": VAE, "mini": MINI_VAE},
    notes="The paper gives figures for linearly spaced Λ alone, and plots the others. kNN: real test images whose "
    "class the codes of the 200 nearest training images vote for. What the paper leaves unsaid is ours: widths, "
    "optimisers, batches, steps, τ = 1 of InfoNCE, the three Λ₂, and how neighbours vote. The paper trains the VAE for "
    "50 epochs, and so does the profile `paper`; mini trains a narrower one for 20.",
    plots=tuple(
        Plot(
            f"{column} over Λ₂, Λ₁ = 5",
            {f"{loss} {column}": (column, {f"{loss}-{second:g}": second for second in SECONDS})
             for loss in ("aninfonce", "infonce")},
            SECONDS[1],
        )
        for column in ("R² content", "R² style", "kNN")
    ),
)  # fmt: skip

EXPERIMENTS: Final[tuple[Experiment, ...]] = (VAE_MNIST,)
