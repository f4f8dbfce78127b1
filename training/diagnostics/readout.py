"""``read_out``: what a linear classifier reads out of a run's frozen features: the class, and what was augmented."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.description import read_description
from ident3d.loaders.format.files import write_json
from ident3d.metrics.neighbours import knn_accuracy
from ident3d.training.diagnostics.features import features_of
from ident3d.training.diagnostics.labels import as_fitted, choose, told_apart
from ident3d.training.images.evaluate import images_to_score
from ident3d.training.images.run import Run, open_run, trained_encoder
from ident3d.training.images.which_dataset import is_trained_on, read_fitting
from ident3d.training.loop.run_folder import READOUT_FILE
from ident3d.training.losses.choice import check_run_seed
from ident3d.training.views.choice import OF_COLOUR, SINGLE, single_augmentations

# All of CIFAR-10.
FITTED, SCORED = 50_000, 10_000
CLASS, NEIGHBOURS, MEAN = "class", "kNN", "mean"


@dataclass(frozen=True)
class Readout:
    """Accuracies on `scored` images after a fit on `fitted`, of the backbone's features and of the codes, by name.

    The names are class and kNN if images have classes, each augmentation (by chance .5), and the mean of these.
    """

    run: Path
    data: Path
    test: Path
    step: int
    fitted: int
    scored: int
    backbone: dict[str, float]
    codes: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, as on disk."""
        return vars(self) | {name: str(getattr(self, name)) for name in ("run", "data", "test")}

    def table(self) -> str:
        rows = [(name, f"{value:.4f}", f"{self.codes[name]:.4f}") for name, value in self.backbone.items()]
        heading = (
            f"{self.run}: fitted on {self.fitted:,} images of {self.data}, scored on {self.scored:,} of {self.test}"
        )
        return f"{heading}\n\n{tabulate(rows, ['read out', 'backbone', 'codes'], disable_numparse=True)}"


def read_out(
    run: Run | Path | str,
    test: Path | str | None = None,
    augmentations: Sequence[str] | None = None,
    *,
    data: Path | str | None = None,
    fitted: int = FITTED,
    scored: int = SCORED,
    encoder: str | Callable[..., Any] | None = None,
    device: str = "auto",
    seed: int = 0,
    root: Path | str | None = None,
    show_progress: bool = True,
) -> Readout:
    """Read class and augmentations out of a run's features by logistic regression, and write ``readout.json`` into it.

    A read-out of an augmentation is binary: a random half of the images is augmented by this single step, at SimCLR's
    strength, and features tell which half. It is fitted on training images and scored on test images, for each
    augmentation anew. kNN is the accuracy of 200 nearest neighbours (`metrics.knn_accuracy`).

    Args:
        run: The run's folder.
        test: The folder to score on; by default the matching test set.
        augmentations: Of grey, brightness, contrast, saturation, hue, crop, blur; by default all that fit the images.
        data: The folder to fit on; by default the one that the run was trained on.
        fitted: Images to fit on, at most.
        scored: Images to score on, at most.
        encoder: A user's own encoder, given or named as in training.
        device: "auto", "cpu", "cuda" or "mps".
        seed: What chooses images and halves, and draws the augmentations.
        root: The data root.
        show_progress: Show a progress bar.

    Returns:
        A `Readout`, with a `table()`.

    Example:
        >>> import ident3d
        >>> found = ident3d.read_out(run, test_set, ["grey", "blur"], device="cpu", show_progress=False)
        >>> sorted(found.codes)
        ['blur', 'grey', 'mean']
    """
    check_run_seed(seed)
    opened = run if isinstance(run, Run) else open_run(run)
    channels = opened.pixels.channels
    if augmentations is None:
        augmentations = [name for name in SINGLE if channels > 1 or name not in OF_COLOUR]
    steps = single_augmentations(augmentations, channels)
    fit_path = Path(opened.data["path"]) if data is None else Path(data)
    fit_on = read_fitting(opened, fit_path)
    score_path, _ = images_to_score(opened, test, root, allow_same=False)
    if is_trained_on(fit_on.settings, read_description(score_path)):
        raise UserError(f"{score_path} holds the images that the read-out is fitted on; score it on others.")
    fit, score = (
        choose(ImageDataset(path), count, seed + k)
        for k, (path, count) in enumerate([(fit_path, fitted), (score_path, scored)])
    )
    both = [fit, as_fitted(fit, score)]
    if not steps and any(each.classes is None for each in both):
        raise UserError(f"The images of {fit_path} have no classes: name an augmentation to read out.")
    model, step = trained_encoder(opened, encoder)

    def features(**change: Any) -> tuple[Any, Any]:
        first, second = (
            features_of(
                opened, model, each.images, each.numbers, which=each.half, seed=2 * seed + k, device=device,
                show=show_progress, **change,
            )
            for k, each in enumerate(both)
        )  # fmt: skip
        return first, second

    backbone, codes = dict[str, float](), dict[str, float]()
    if both[0].classes is not None and both[1].classes is not None:
        known, others = features()
        backbone[CLASS], codes[CLASS] = told_apart(both[0].classes, known, both[1].classes, others)
        for into, first, second in zip((backbone, codes), known, others, strict=True):
            into[NEIGHBOURS] = float(knn_accuracy(both[0].classes, first, test=(both[1].classes, second)))
    for name, how in steps.items():
        known, others = features(how=how)
        backbone[name], codes[name] = told_apart(both[0].half, known, both[1].half, others)
    for into in (backbone, codes):
        if steps:
            into[MEAN] = mean(into[name] for name in steps)
    counts = [len(each.numbers) for each in both]
    found = Readout(opened.path, fit_path, score_path, step, counts[0], counts[1], backbone, codes)
    write_json(opened.path / READOUT_FILE, found.as_dict())
    return found
