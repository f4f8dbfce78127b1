"""Codes of images by a run's trained encoder, and ``encode``, which writes those of a whole folder to a file."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ident3d.errors import UserError, os_errors
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.folder import local_copy
from ident3d.loaders.format.files import write_atomically
from ident3d.loaders.format.latents_source import npy_bytes
from ident3d.memory import keep_memory, memory_advice
from ident3d.progress import progress_bar
from ident3d.training.images.run import Run, open_run, trained_encoder
from ident3d.training.images.which_dataset import read_fitting
from ident3d.training.loop.accumulation import untracked_statistics
from ident3d.training.loop.devices import device_of, on_device
from ident3d.training.loop.dtype import autocast
from ident3d.training.views.pixels import Pixels

# Images that go through the encoder at once.
BATCH = 256


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
    read_fitting(opened, directory)
    images = ImageDataset(directory)
    model, _ = trained_encoder(opened, encoder)
    codes = codes_of(opened, model, images, np.arange(len(images)), device, False, show_progress)
    with os_errors(f"{target} cannot be written"):
        write_atomically(target, npy_bytes(codes) if target.suffix == ".npy" else h5_bytes(codes, images))
    return target


def codes_of(
    run: Run,
    model: nn.Module,
    images: ImageDataset,
    numbers: NDArray[np.int64],
    device: str,
    batch_stats: bool,
    show: bool,
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


def h5_bytes(codes: NDArray[np.float32], images: ImageDataset) -> bytes:
    """Return an HDF5 file of the codes and raw latents, with the class if the scene has one."""
    raw, classes = images.all_latents()
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["codes"], file["raw_latents"] = codes, raw
        file.attrs["latents"] = list(images.world.names)
        if classes is not None:
            file["class"] = classes
    return buffer.getvalue()
