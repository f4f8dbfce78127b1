"""Scores of a run on images that it was not trained on, and codes of any images."""

import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ident3d.errors import UserError, os_errors
from ident3d.latents.factors import Factors
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import local_copy
from ident3d.loaders.format.files import sha256, write_atomically, write_json
from ident3d.loaders.format.latents_source import npy_bytes
from ident3d.memory import keep_memory, memory_advice
from ident3d.metrics import Report, score
from ident3d.metrics.factors import Kind
from ident3d.metrics.scoring import choose_scores
from ident3d.progress import progress_bar
from ident3d.training.images.run import Run, open_run, trained_encoder
from ident3d.training.images.which_dataset import fitting, held_out_folder, otherness, overlaps
from ident3d.training.loop.accumulation import untracked_statistics
from ident3d.training.loop.devices import device_of, on_device
from ident3d.training.loop.dtype import autocast
from ident3d.training.views.pixels import Pixels

EVALUATION_FILE, CODES_FILE, PICTURE_FILE = "evaluation.json", "evaluation-codes.npy", "correlation.png"
BATCH = 256
Numbers: TypeAlias = NDArray[np.int64]
# The number of images that the papers score.
PAPERS_COUNT = 4096
# R² and MCC, by which runs are listed and compared.
HEADLINE: Final = ("linear_r2_held_out", "mcc_pearson")


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
        raise UserError(f"The images of {opened.path} have no latents to score by; `ident3d encode` writes codes.")
    path = held_out_folder(opened, root) if data is None else local_copy(data)
    if path is None:
        made = "render one with --split test"
        # Ranges that are taken from other arrays are other ranges, and then the worlds differ.
        if isinstance(opened.world, Factors):
            made = f"import one with --split test --like {opened.data['path']}"
        raise UserError(
            f"No complete test set with the world, material and size of {opened.data['path']} was found beside it or "
            f"below the data root; {made}, then `ident3d evaluate RUN`, or name one: `ident3d evaluate RUN --data DIR`."
        )
    description = fitting(opened, path)
    same = overlaps(opened.data["settings"], description)
    if same and not allow_same:
        raise UserError(f"{path} holds images that {opened.path} was trained on; take a test set, or say --allow-same.")
    # A run that its trainer hands on has its training set open. Opening reads a manifest, which may be long.
    images = opened.images
    if images is None or images.parts[0].path.resolve() != path.resolve():
        images = ImageDataset(path, latents=opened.latents)
    if count < 4:
        raise UserError(f"Scores need at least 4 images, not {count}.")
    numbers = np.arange(min(count, len(images)))
    model, step = trained_encoder(opened, encoder)
    codes = codes_of(opened, model, images, numbers, device, bn_batch_stats, show_progress)
    latents = images.latents(numbers)
    classes = images.all_latents()[1]
    given: dict[str, Any] = {
        "seed": seed,
        "classes": None if classes is None else classes[numbers],
        "latent_names": opened.latents,
        "kinds": kinds_of(images),
    }
    report = score(latents, codes, metrics, **given)
    # Few images may allow what was asked for and not these.
    for name in HEADLINE:
        if name in report.scores or name in report.left_out:
            continue
        with suppress(UserError):
            added = score(latents, codes, name, **given)
            report = replace(
                report, scores=report.scores | added.scores, cpu_seconds=report.cpu_seconds | added.cpu_seconds
            )
    # What is unusual about these images stands above the scores wherever they are shown.
    labels = ["Scored on images that the run was trained on."] if same else []
    if other := otherness(opened.data["settings"], description):
        labels = [f"Scored on images of another world than the run was trained on ({other})."]
    if bn_batch_stats:
        labels.append("Batch norm took each batch's statistics.")
    file = npy_bytes(codes)
    found = Evaluation(
        opened.path,
        path,
        len(numbers),
        " ".join(labels) or None,
        report,
        step=step,
        bn_batch_stats=bn_batch_stats,
        codes=codes,
        codes_sha256=sha256(file),
        images=images,
    )
    write_atomically(opened.path / CODES_FILE, file)
    report.plot(opened.path / PICTURE_FILE)
    # Last, because it names the digest of the codes: codes of another evaluation are not shown beside these scores.
    write_json(opened.path / EVALUATION_FILE, found.as_dict())
    return found


def kinds_of(images: ImageDataset) -> list[Kind] | None:
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


def encode(
    run: Path | str,
    directory: Path | str,
    out: Path | str | None = None,
    *,
    encoder: str | Callable[..., Any] | None = None,
    device: str = "auto",
    show_progress: bool = True,
) -> Path:
    """Write the codes of all images of a folder, (n, d) float32 in their order, to a .npy or .h5 file.

    Args:
        run: The run's folder.
        directory: The dataset folder to encode.
        out: A .npy or .h5 file.
        encoder: A user's own encoder, given or named as in training.
        device: "auto", "cpu", "cuda" or "mps".
        show_progress: Show a progress bar.

    Returns:
        The file.

    Example:
        >>> import ident3d, numpy as np
        >>> path = ident3d.encode(run, test_set, "codes.npy", device="cpu", show_progress=False)
        >>> np.load(path).shape
        (40, 10)
    """
    opened, directory = open_run(run), local_copy(directory)
    target = Path(out) if out else opened.path / f"codes-{directory.resolve().name}.npy"
    if target.suffix not in (".npy", ".h5"):
        raise UserError(f"Codes are written as .npy or .h5; the name given is {target.name!r}.")
    if not target.parent.is_dir():
        raise UserError(f"There is no folder {target.parent} to write the codes to.")
    fitting(opened, directory)
    images = ImageDataset(directory)
    model, _ = trained_encoder(opened, encoder)
    codes = codes_of(opened, model, images, np.arange(len(images)), device, False, show_progress)
    with os_errors(f"{target} cannot be written"):
        write_atomically(target, npy_bytes(codes) if target.suffix == ".npy" else h5(codes, images))
    return target


def codes_of(
    run: Run, model: nn.Module, images: ImageDataset, numbers: Numbers, device: str, batch_stats: bool, show: bool
) -> NDArray[np.float32]:
    """Return the codes of images by number, in the run's number format."""
    keep_memory()
    # Statistics of batches mean what they did in training only if batches are as large: B pairs are 2B or 3B images.
    batch = max(2, run.settings.views) * run.settings.batch if batch_stats else BATCH
    where = device_of(device)
    # A run on a GPU may have used fp16, which a CPU does not train or score in.
    dtype = run.dtype if where.type != "cpu" or run.dtype != "fp16" else "fp32"
    pixels = Pixels(run.pixels.mean, run.pixels.std, run.settings.size)
    model = on_device(model, where).eval()
    if batch_stats:
        for module in model.modules():
            if isinstance(module, _BatchNorm):
                module.train()
    parts = []
    bar = progress_bar(len(numbers), "images", show=show)
    # Batches that give their own statistics must not move the running ones, which belong to training.
    memory = memory_advice(f"{batch} images go through the encoder at once")
    with memory, bar, torch.inference_mode(), untracked_statistics(model):
        for some in np.array_split(numbers, max(1, round(len(numbers) / batch))):
            x = pixels.prepare(images.batch(some)[1], where)
            with autocast(dtype, where):
                parts.append(model(x).float().cpu().numpy())
            bar.update(len(some))
    codes: NDArray[np.float32] = np.concatenate(parts)
    if not np.isfinite(codes).all():
        raise UserError(f"The encoder of {run.path} gives codes that are no numbers.")
    return codes


def h5(codes: NDArray[np.float32], images: ImageDataset) -> bytes:
    """Return an HDF5 file of the codes and raw latents, with the class if the scene has one."""
    raw, classes = images.all_latents()
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["codes"], file["raw_latents"] = codes, raw
        file.attrs["latents"] = list(images.world.names)
        if classes is not None:
            file["class"] = classes
    return buffer.getvalue()
