"""``evaluate``: scores of a run on images that it was not trained on, written into the run's folder."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.loaders.cards.facts import ARRAYS
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_rules import joined_numbers
from ident3d.loaders.folders.folder import local_copy
from ident3d.loaders.format.files import sha256, write_atomically, write_json
from ident3d.loaders.format.latents_source import GENERATED, IMPORTED, blocks_of, npy_bytes
from ident3d.loaders.pairs.view import one_of_each
from ident3d.metrics import Report, score
from ident3d.metrics.factors import Kind
from ident3d.metrics.scoring import choose_scores
from ident3d.training.images.encode import codes_of
from ident3d.training.images.run import Run, open_run, trained_encoder
from ident3d.training.images.which_dataset import (
    held_out_folder,
    is_in_training_grid,
    is_trained_on,
    other_world,
    read_fitting,
)
from ident3d.training.loop.run_folder import EVALUATION_FILE, HEADLINE

CODES_FILE, CORRELATION_FILE = "evaluation-codes.npy", "correlation.png"
# The number of images that the papers score.
PAPERS_COUNT = 4096
# A direction whose eigenvalue is a smaller share of the largest one is rounding.
SMALLEST_SHARE = 1e-10


@dataclass(frozen=True)
class Evaluation:
    """A run's scores on a folder, after `step` steps, with the codes and the images that were scored.

    `label` says what is unusual about them: images that were trained on, say.
    """

    run: Path
    data: Path
    count: int
    label: str | None
    report: Report
    step: int
    bn_batch_stats: bool
    codes: NDArray[np.float32] = field(repr=False)
    codes_sha256: str
    images: ImageDataset = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the codes and the images as plain numbers, lists and strings, as on disk."""
        where = {"run": str(self.run), "data": str(self.data), "count": self.count, "label": self.label}
        how = {"bn_batch_stats": self.bn_batch_stats, "step": self.step, "codes_sha256": self.codes_sha256}
        return where | self.report.as_dict() | how

    def table(self) -> str:
        heading = f"{self.run} on {self.data}" + (f"\n{self.label}" if self.label else "")
        return f"{heading}\n\n{self.report.table()}"


def evaluate(
    run: Run | Path | str,
    data: Path | str | None = None,
    *,
    metrics: str | Sequence[str] = "default",
    count: int = PAPERS_COUNT,
    bn_batch_stats: bool = False,
    allow_same: bool = False,
    encoder: str | Callable[..., Any] | None = None,
    device: str = "auto",
    seed: int = 0,
    root: Path | str | None = None,
    show_progress: bool = True,
) -> Evaluation:
    """Score a run's codes of the first `count` images of a folder against their latents, and write the scores down.

    `data` is by default the folder of split test with the training set's world and size. Batch norm is in evaluation
    mode; with `bn_batch_stats` it takes the statistics of batches as large as in training, as the public code does.
    Of a run on rendered views, block R² is scored with their shared and private latents as blocks. Of images that are
    views, one of each z is scored.
    `encoder` is a user's own encoder, or names it again. (`ident3d.score` scores any two arrays.)

    Args:
        run: The run's folder.
        data: The folder to score on; by default the matching test set.
        metrics: "default", "all", or names of scores; R² and MCC are always scored besides.
        count: The number of images.
        bn_batch_stats: Batch norm takes the statistics of batches.
        allow_same: Accept images that the run was trained on.
        encoder: A user's own encoder, given or named as in training.
        device: "auto", "cpu", "cuda" or "mps".
        seed: What shuffles rows and draws samples.
        root: The data root.
        show_progress: Show a progress bar.

    Returns:
        An `Evaluation`, with a `table()`.

    Example:
        >>> import ident3d
        >>> found = ident3d.evaluate(run, test_set, metrics="mcc_pearson", device="cpu", show_progress=False)
        >>> found.count
        40
    """
    # A name that does not exist is refused before images are encoded.
    choose_scores(metrics)
    opened = run if isinstance(run, Run) else open_run(run)
    if not opened.latents:
        raise UserError(
            f"The images of {opened.path} have no latents to score by; `ident3d evaluate RUN "
            "--readout all` reads classes and augmentations out of its features, and `ident3d encode` writes codes."
        )
    if count < 4:
        raise UserError(f"Scores need at least 4 images, not {count}.")
    path, labels = images_to_score(opened, data, root, allow_same=allow_same)
    # A run that its trainer hands on has its training set open. Opening reads a manifest, which may be long.
    images = opened.images
    if images is None or images.parts[0].path.resolve() != path.resolve():
        images = ImageDataset(path, latents=opened.latents)
    numbers = np.arange(min(count, len(images)))
    model, step = trained_encoder(opened, encoder)
    codes = codes_of(opened, model, images, numbers, device, bn_batch_stats, show_progress)
    latents = images.latents(numbers)
    classes = images.all_latents()[1]
    rows = numbers
    if "instance" in images.columns:
        # A twin in the fitted half would tell what the codes of the held-out half do not hold.
        rows = one_of_each(joined_numbers(images, "instance")[numbers])
        labels.append(f"Scored on one view of each z, {len(rows):,} of {len(numbers):,} images.")
    # What the run learnt from says what is shared; a plain test set need not.
    blocks = blocks_of(opened.data["settings"]) or images.blocks
    given: dict[str, Any] = {
        "seed": seed,
        "classes": None if classes is None else classes[rows],
        "latent_names": opened.latents,
        "kinds": declared_kinds(images),
        "blocks": columns_of_blocks(blocks, opened.latents),
    }
    report = score(latents[rows], codes[rows], metrics, **given)
    # Few images may allow what was asked for and not these.
    for name in HEADLINE.values():
        if name in report.scores or name in report.left_out:
            continue
        with suppress(UserError):
            added = score(latents[rows], codes[rows], name, **given)
            report = replace(
                report, scores=report.scores | added.scores, cpu_seconds=report.cpu_seconds | added.cpu_seconds
            )
    if bn_batch_stats:
        labels.append("Batch norm took each batch's statistics.")
    file = npy_bytes(codes)
    found = Evaluation(
        opened.path,
        path,
        len(rows),
        " ".join(labels) or None,
        report,
        step=step,
        bn_batch_stats=bn_batch_stats,
        codes=codes,
        codes_sha256=sha256(file),
        images=images,
    )
    write_atomically(opened.path / CODES_FILE, file)
    report.plot(opened.path / CORRELATION_FILE)
    # Last, because it names the digest of the codes: codes of another evaluation are not shown beside these scores.
    write_json(opened.path / EVALUATION_FILE, found.as_dict())
    return found


def columns_of_blocks(blocks: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, list[int]] | None:
    """Return the columns of each block among the latents of these names; None if there are no blocks."""
    found = {block: [names.index(name) for name in members if name in names] for block, members in blocks.items()}
    return {block: columns for block, columns in found.items() if columns} or None


def images_to_score(
    run: Run, data: Path | str | None, root: Path | str | None, *, allow_same: bool
) -> tuple[Path, list[str]]:
    """Return the folder to score a run on, and what is unusual about its images, for above the scores."""
    path = held_out_folder(run, root) if data is None else local_copy(data)
    if path is None:
        made = "render one with --split test"
        kind = run.data["settings"]["source"]["kind"]
        # Ranges that are taken from other arrays are other ranges, and then the worlds differ.
        if kind == GENERATED:
            made = "generate one with the same `ident3d sprites` and --split test"
        elif kind == IMPORTED:
            made = "import one with --split test"
            if run.data["settings"]["source"].get("layout") == ARRAYS:
                made += f" and --like {run.data['path']}"
        # Grids and sequences of the papers have no test set.
        if run.settings.rule in ("grid", "time") and kind in (GENERATED, IMPORTED):
            made = (
                "score it as the papers do, on the images that it was trained on, by `ident3d evaluate RUN --protocol "
                f"slowvae`; or {made}"
            )
        raise UserError(
            f"No complete test set with the world, material and size of {run.data['path']} was found beside it or "
            f"below the data root; {made}, then `ident3d evaluate RUN`, or name one: `ident3d evaluate RUN --data DIR`."
        )
    description = read_fitting(run, path)
    same = is_trained_on(run.data["settings"], description)
    if same and not allow_same:
        raise UserError(f"{path} holds images that {run.path} was trained on; take a test set, or say --allow-same.")
    if other := other_world(run.data["settings"], description):
        return path, [f"Scored on images of another world than the run was trained on ({other})."]
    if not same and is_in_training_grid(run.data["settings"], run.data["n"], description):
        return path, ["Test images are among the training grid, which holds every combination of values."]
    return path, ["Scored on images that the run was trained on."] if same else []


def declared_kinds(images: ImageDataset) -> list[Kind] | None:
    """Return the kinds of the selected latents where they are declared; None leaves a scene's to their values."""
    if not isinstance(images.world, Factors):
        return None
    declared = {factor.name: factor for factor in images.world.factors}
    # Raw, a periodic factor goes from -1 to 1: its period is 2.
    kinds = {"periodic": 2.0, "categorical": "discrete", "box": "continuous"}
    return [
        "discrete" if declared[name].values else kinds[declared[name].kind]  # type: ignore[misc]
        for name in images.names
    ]


def identity_r2(images: ImageDataset, count: int = 4096, seed: int = 0) -> float:
    """Return the mean held-out R² of the least-squares map of least norm from pixels to latents, without an encoder.

    It is fitted on a half of the images, and is the row "identity" of the papers' tables.

    There are more pixels than images, so it is solved among images: with K = X Xᵀ, ẑ = X_new Xᵀ K⁺ Z.
    """
    numbers = np.random.default_rng(seed).permutation(min(count, len(images)))
    half = len(numbers) // 2
    if half < 2:
        raise UserError("The identity row needs at least 4 test images.")
    x = images.images(numbers).reshape(len(numbers), -1).astype(np.float32) / 255
    z = images.latents(numbers).astype(np.float64)
    x -= x[:half].mean(0)
    centre = z[:half].mean(0)
    kernel = (x @ x[:half].T).astype(np.float64)
    weights = np.linalg.pinv(kernel[:half], rcond=SMALLEST_SHARE, hermitian=True) @ (z[:half] - centre)
    residual = z[half:] - centre - kernel[half:] @ weights
    unexplained = (residual**2).mean(0) / z[half:].var(0)
    return float((1 - unexplained).mean())
