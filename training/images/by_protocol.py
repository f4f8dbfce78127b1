"""Scores of a run by another paper's protocol, on the images that it was trained on, as those papers do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError, check_known
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_rules import time_sampler
from ident3d.loaders.folders.folder import local_copy
from ident3d.loaders.format.files import write_json
from ident3d.metrics.protocols import PROTOCOLS, ProtocolScores, score_by_protocol
from ident3d.training.images.encode import codes_of
from ident3d.training.images.run import Run, open_run, trained_encoder
from ident3d.training.images.which_dataset import read_fitting


@dataclass(frozen=True, eq=False)
class ProtocolEvaluation:
    """A run's scores by a protocol, after `step` steps, on the images of a folder, with its codes of all of them."""

    run: Path
    data: Path
    step: int
    found: ProtocolScores
    codes: NDArray[np.float32] = field(repr=False)
    images: ImageDataset = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and strings, as on disk."""
        return {"run": str(self.run), "data": str(self.data), "step": self.step} | self.found.as_dict()

    def table(self) -> str:
        return f"{self.run} on {self.data}\n\n{self.found.table()}"


def evaluate_by_protocol(
    run: Run | Path | str,
    protocol: str = "slowvae",
    data: Path | str | None = None,
    *,
    metrics: Sequence[str] | None = None,
    fraction: float = 1.0,
    encoder: str | Callable[..., Any] | None = None,
    device: str = "auto",
    seed: int = 0,
    show_progress: bool = True,
) -> ProtocolEvaluation:
    """Encode all images of a folder, score the codes by a protocol, and write ``protocol-<name>.json`` into the run.

    The folder is by default the one that the run was trained on: the papers score on those images. Of sequences,
    samples are drawn from all frames but the last one of each. The protocols: `ident3d.metrics.score_by_protocol`.

    Args:
        run: The run's folder.
        protocol: "slowvae".
        data: The folder to score on.
        metrics: Names of the protocol's scores; by default all that fit the images.
        fraction: The share of the protocol's sample counts to draw.
        encoder: A user's own encoder, given or named as in training.
        device: "auto", "cpu", "cuda" or "mps".
        seed: What draws the samples.
        show_progress: Show a progress bar.

    Returns:
        A `ProtocolEvaluation`, with a `table()`.

    Example:
        >>> import ident3d
        >>> found = ident3d.evaluate_by_protocol(run, "slowvae", test_set, device="cpu", show_progress=False)
        >>> list(found.found.scores)  # the factors are continuous
        ['mcc']
    """
    check_known("protocol", protocol, PROTOCOLS)
    opened = run if isinstance(run, Run) else open_run(run)
    if not opened.latents:
        raise UserError(
            f"The images of {opened.path} have no latents to score by; `ident3d evaluate RUN "
            "--readout all` reads classes and augmentations out of its features, and `ident3d encode` writes codes."
        )
    path = Path(opened.data["path"]) if data is None else local_copy(data)
    read_fitting(opened, path)
    images = ImageDataset(path, latents=opened.latents)
    rows = None
    if "sequence" in images.columns:
        sampler = time_sampler(images, 1, 0)
        rows = sampler.order[sampler.starts]
    model, step = trained_encoder(opened, encoder)
    numbers = np.arange(len(images))
    codes = codes_of(opened, model, images, numbers, device, False, show_progress)
    scores = score_by_protocol(
        protocol, images.latents(numbers), codes, metrics, rows=rows, fraction=fraction, seed=seed
    )
    found = ProtocolEvaluation(opened.path, path, step, scores, codes, images)
    write_json(opened.path / f"protocol-{protocol}.json", found.as_dict())
    return found
