"""Self-Supervised Learning with Data Augmentations Provably Isolates Content from Style (NeurIPS 2021).

The table on Causal-3DIdent: twelve views, and how well a linear classifier finds the class, and kernel ridge regression
each group of latents, in the codes.

    command                                                          size                          cost
    ident3d reproduce causal3dident                                  14,000 + 4,200 images,        2 CPU hours, and 20
                                                                     1,500 steps a row             CPU minutes to render
    ident3d reproduce causal3dident --profile paper --seeds 0,1,2    252,000 + 25,200 images,      never run
                                                                     200,000 steps a row

The table of the first is results/causal3dident-mini. The paper's is in the rows below.
"""

from dataclasses import replace
from typing import Final

from ident3d.latents.exact.names import GROUPS
from ident3d.latents.worlds import World
from ident3d.training.experiments.experiment import Experiment, ImageVariant, Row
from ident3d.training.images.settings import TrainSettings

# How each column is scored: the class by a linear classifier, groups of latents by kernel ridge regression.
RIDGE: Final = "kernel_ridge_r2"
SCORES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "class": ("class_accuracy", ()),
    "pos obj": (RIDGE, GROUPS["position"]),
    "pos spot": (RIDGE, ("spotlight_position",)),
    "hue obj": (RIDGE, ("object_hue",)),
    "hue spot": (RIDGE, ("spotlight_hue",)),
    "hue ground": (RIDGE, ("ground_hue",)),
    "rot": (RIDGE, GROUPS["rotation"]),
}
PAPER: Final = TrainSettings(space="unbounded", loss="simclr", dim=8, steps=200_000)
# For a CPU: an encoder for small images; a ResNet-18 takes 4.5 times as long for a step.
MINI: Final = replace(PAPER, encoder="conv", batch=256, lr=1e-3, schedule="onecycle", steps=1_500)
CAUSAL: Final = ImageVariant(
    name="causal", settings=PAPER, world=World("causal3dident"), size=224, train=252_000, test=25_200
)


def _row(name: str, change: dict[str, object], shares: tuple[float, ...]) -> Row:
    return Row(name, change, {column: (100 * share, 0.0) for column, share in zip(SCORES, shares, strict=True)})


def _augmented(name: str, augment: str, *shares: float) -> Row:
    return _row(name, {"cond": "augment", "augment": augment}, shares)


def _redrawn(name: str, only: tuple[str, ...], *shares: float) -> Row:
    return _row(name, {"cond": "normal", "sigma": 1.0, "only": only, "same_class": True}, shares)


CAUSAL3DIDENT: Final = Experiment(
    name="causal3dident",
    title="Causal-3DIdent, views and what they keep: Self-Supervised Learning with Data Augmentations Provably "
    "Isolates Content from Style (NeurIPS 2021)",
    kind="images",
    columns=tuple(SCORES),
    scores=SCORES,
    rows=(
        _augmented("da-colour", "colour", 0.42, 0.61, 0.17, 0.10, 0.01, 0.01, 0.33),
        _redrawn("lt-hues", ("hues",), 1, 0.59, 0.91, 0.30, 0, 0, 0.30),
        _augmented("da-crop-large", "crop-large", 0.28, 0.09, 0.21, 0.87, 0.09, 1, 0.02),
        _augmented("da-crop-small", "crop-small", 0.14, 0, 0, 0, 0, 1, 0),
        _redrawn("lt-positions", ("positions",), 1, 0.16, 0, 0.46, 0, 0.97, 0.29),
        _augmented("da-crop-large+colour", "crop-large+colour", 0.97, 0.59, 0.59, 0.28, 0.01, 0.01, 0.74),
        _augmented("da-crop-small+colour", "crop-small+colour", 1, 0.69, 0.93, 0.30, 0, 0.02, 0.56),
        _redrawn("lt-positions+hues", ("positions", "hues"), 1, 0.22, 0.07, 0.32, 0, 0.02, 0.34),
        _augmented("da-rotation", "rotation", 0.33, 0.17, 0.23, 0.83, 0.30, 0.99, 0.05),
        _redrawn("lt-rotations", ("rotations",), 1, 0.53, 0.90, 0.41, 0, 0.97, 0.28),
        _augmented("da-rotation+colour", "rotation+colour", 0.59, 0.58, 0.21, 0.12, 0.01, 0.01, 0.33),
        _redrawn("lt-rotations+hues", ("rotations", "hues"), 1, 0.57, 0.91, 0.30, 0, 0, 0.28),
    ),
    ordered=True,
    profiles={
        "paper": (CAUSAL,),
        "mini": (replace(CAUSAL, settings=MINI, size=64, train=14_000, test=4_200),),
    },
)

EXPERIMENTS: Final = (CAUSAL3DIDENT,)
