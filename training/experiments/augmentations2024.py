"""InfoNCE: Identifying the Gap Between Theory and Practice (2024), on real images: Table 1 and appendix G.

The paper names the encoders, the epochs and the code that it started from. All else is ours: Adam in place of LARS,
batches, rates, τ, projectors, which images are augmented in a read-out, and that linear read-outs are logistic
regressions on plain images.

    command                                cost
    ident3d reproduce cifar10-readout      see the table's own CPU minutes; first `ident3d datasets fetch cifar10`
    ident3d reproduce minimal-change       likewise, with `ident3d datasets fetch mnist`
    ident3d reproduce imagenet-readout     the paper's size alone, on pictures of the user's own; never run here

`--profile paper` has never been run here.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ident3d.training.experiments.aninfonce2024 import GAP
from ident3d.training.experiments.experiment import CODES, Experiment, Figure, Row, StoredVariant
from ident3d.training.experiments.vaemnist2024 import MINI_VAE, VAE
from ident3d.training.images.settings import TrainSettings

COLOURS: Final = ("grey", "brightness", "contrast", "hue", "saturation")
BACKBONE: Final = ("class", *COLOURS, "mean", "kNN")
# The loss of each row: AnInfoNCE on a sphere compares directions; without the ℓ2 norm, codes as they are.
ANINFONCE: Final[dict[str, Any]] = {"loss": "aninfonce", "space": "sphere"}
NO_NORM: Final[dict[str, Any]] = {"loss": "aninfonce", "space": "unbounded"}
INFONCE: Final[dict[str, Any]] = {"loss": "simclr", "space": "sphere"}


def of_codes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the same figures of codes."""
    return tuple(f"{name}{CODES}" for name in names)


def _row(name: str, change: Mapping[str, Any], backbone: tuple[float, ...], codes: tuple[float, ...]) -> Row:
    """Return a row with the paper's figures of backbone and projector: class, augmentations and their mean."""
    names = (*BACKBONE[:-1], *of_codes(BACKBONE[:-1]))
    paper: dict[str, Figure] = {n: (value, 0.0) for n, value in zip(names, (*backbone, *codes), strict=True)}
    return Row(name, change, paper)


def _readout(**given: Any) -> Experiment:
    """Return an experiment on backbones, with a second table of what is behind the projector."""
    return Experiment(
        kind="images", columns=BACKBONE, further={"Behind the projector": of_codes(BACKBONE)}, readout=COLOURS, **given
    )


UNSAID: Final = (
    "What the paper leaves unsaid is ours: Adam in place of LARS, batch, learning rate, τ, projector, and the "
    "read-outs. Each of these is a logistic regression on features of plain training images, of which a random half is "
    "augmented by this step alone at SimCLR's strength (by chance .5), scored on test images. kNN: 200 neighbours by "
    "cosine, τ = .1."
)
# Epochs of CIFAR-10 in batches of 256.
EPOCH: Final = 195
CIFAR_PAPER: Final = TrainSettings(
    encoder="resnet18+small-stem+projector512", dim=256, cond="augment", augment="simclr+crop-medium", batch=256,
    steps=1000 * EPOCH, lr=1e-3, schedule="cosine",
)  # fmt: skip
# For a CPU: small convolutions in place of the ResNet, which has a hundred times their arithmetic.
CIFAR_MINI: Final = replace(CIFAR_PAPER, encoder="conv+projector256", dim=128, steps=12 * EPOCH, dtype="fp32")

CIFAR: Final = _readout(
    name="cifar10-readout",
    title=f"CIFAR-10: what features know of class and augmentations, Table 1 of {GAP}",
    rows=(
        _row("infonce", INFONCE | {"tau": 0.5},
             (90.9, 56.1, 59.3, 62.6, 55.4, 55.1, 57.7), (89.8, 52.0, 52.0, 52.0, 51.8, 51.0, 51.8)),
        _row("aninfonce", ANINFONCE,
             (88.4, 80.1, 93.4, 91.1, 65.5, 72.3, 80.5), (85.4, 71.4, 71.4, 77.1, 59.7, 65.5, 69.0)),
        _row("aninfonce-no-l2", NO_NORM,
             (83.2, 96.2, 98.0, 96.6, 76.8, 88.4, 91.2), (79.1, 65.5, 65.5, 87.6, 70.5, 83.8, 74.6)),
        # Ours: Λ̂ with a rate that takes it to its place in mini, InfoNCE at the scale where that Λ̂ ended, and a floor.
        Row("aninfonce-fast", ANINFONCE | {"lambda_lr": 0.1}, {}),
        Row("infonce-cold", INFONCE | {"tau": 0.072}, {}),
        Row("untrained", INFONCE | {"tau": 0.5, "steps": 1}, {}),
    ),
    profiles={
        "paper": (
            StoredVariant(name="cifar10", settings=CIFAR_PAPER, data="cifar10/train", scored_on="cifar10/test"),
        ),
        "mini": (
            StoredVariant(name="cifar10", settings=CIFAR_MINI, data="cifar10/train", scored_on="cifar10/test"),
        ),
    },
    notes=f"{UNSAID} Mini trains for 12 epochs and the paper for 1,000, and its features are those behind 256 units, "
    "not those of a ResNet's last convolutions: the order of rows is to be compared, and no single figure. On a sphere "
    "AnInfoNCE with the same Λ̂ in all codes is InfoNCE with τ = 1/Λ̂, but for its second views' negatives. It starts at "
    ".69, and its usual rate moves it "
    "little in mini: aninfonce-fast is ours, with a hundred times that rate, and infonce-cold is InfoNCE at the mean Λ̂ "
    "that it ends at. untrained is after one step. With 10,000 test images a share has a standard error of .005.",
)  # fmt: skip

IMAGENET_PAPER: Final = TrainSettings(
    encoder="resnet50+bn-projector8192x2", dim=8192, cond="augment", augment="simclr", batch=2048, steps=100 * 625,
    lr=1e-3, schedule="cosine",
)  # fmt: skip
IMAGENET: Final = _readout(
    name="imagenet-readout",
    title=f"ImageNet: what features know of class and augmentations, Table 1 of {GAP}",
    rows=(
        _row("infonce", INFONCE | {"tau": 0.15},
             (68.2, 98.7, 71.6, 72.5, 68.0, 61.2, 74.4), (57.7, 58.6, 51.9, 51.9, 51.5, 51.1, 53.0)),
        _row("aninfonce", ANINFONCE,
             (59.0, 98.8, 81.5, 82.3, 71.6, 62.5, 79.3), (26.7, 71.0, 55.2, 54.1, 52.6, 52.7, 57.1)),
    ),
    profiles={
        "paper": (
            StoredVariant(name="imagenet", settings=IMAGENET_PAPER, data="imagenet/train", scored_on="imagenet/test"),
        ),
    },
    notes=f"{UNSAID} Read-outs are fitted on 50,000 of the training images.",
)  # fmt: skip

SHAPES: Final = ("crop", "blur")
MNIST_PAPER: Final = TrainSettings(
    encoder="512x2", dim=10, cond="augment", augment="crop-medium+blur", batch=1000, steps=100_000, lr=1e-4,
)  # fmt: skip
MNIST_MINI: Final = replace(MNIST_PAPER, batch=256, steps=8_000, lr=1e-3, schedule="cosine", dtype="fp32")
HIDDEN: Final = ("class", *SHAPES, "mean", "kNN")


def _minimal(name: str, change: Mapping[str, Any], *paper: float) -> Row:
    columns = ("class, codes", "R²", "crop, codes", "blur, codes")
    return Row(name, change, {column: (value, 0.0) for column, value in zip(columns, paper, strict=True)})


MINIMAL: Final = Experiment(
    name="minimal-change",
    title=f"MNIST: what codes know of class, a VAE's latents and augmentations, appendix G of {GAP}",
    kind="images",
    columns=("class, codes", "R²", "crop, codes", "blur, codes", "kNN, codes"),
    further={"The last hidden layer": HIDDEN},
    readout=SHAPES,
    rows=(
        _minimal("infonce", INFONCE | {"tau": 1.0}, 97.0, 34.0, 53.0, 58.0),
        _minimal("aninfonce", ANINFONCE, 94.0, 44.0, 59.0, 63.0),
    ),
    profiles={
        "paper": (
            StoredVariant(
                name="mnist", settings=MNIST_PAPER, data="mnist/train", scored_on="mnist/test", autoencoder=VAE
            ),
        ),
        "mini": (
            StoredVariant(
                name="mnist", settings=MNIST_MINI, data="mnist/train", scored_on="mnist/test", autoencoder=MINI_VAE,
                fraction=0.2,
            ),
        ),
    },
    notes="R² is that of the codes that a VAE infers from the same images, by a linear map. "
    + UNSAID.replace("Adam in place of LARS, batch", "Adam, batch").replace("τ, projector", "τ = 1")
    + " So are the strengths of the augmentations: crops of 20 to 100 % of the area, flips and blur with probability "
    ".5. There is no projector: codes are the encoder's last layer.",
)  # fmt: skip

EXPERIMENTS: Final = (CIFAR, MINIMAL, IMAGENET)
