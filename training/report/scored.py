"""A run's scores as they lie in its folder, with the codes and the images that they are of, checked before use."""

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.format.arrays import load_array
from ident3d.loaders.format.files import read_json, sha256
from ident3d.training.images.evaluate import CODES_FILE, Evaluation
from ident3d.training.images.run import Run
from ident3d.training.loop.log_file import LARGEST_FIGURE
from ident3d.training.loop.run_folder import EVALUATION_FILE


class Scored(NamedTuple):
    """A run's scores as evaluation.json holds them, and the codes and images that they are of, if they are found."""

    scores: dict[str, Any]
    codes: NDArray[np.float64] | None
    images: ImageDataset | None


def scored_of(evaluation: Evaluation) -> Scored:
    return Scored(evaluation.as_dict(), evaluation.codes.astype(np.float64), evaluation.images)


def read_scored(run: Run) -> Scored | None:
    """Return the scores in a run's folder, with their codes and images; None if it has not been scored."""
    path = run.path / EVALUATION_FILE
    if not path.is_file():
        return None
    try:
        scores = read_json(path)
        check_scores(scores)
    except (ValueError, KeyError):
        raise UserError(f"{path} cannot be read; `ident3d evaluate {run.path}` writes it anew.") from None
    # The file is read once: what is hashed is what is shown.
    file = run.path / CODES_FILE
    content = file.read_bytes() if file.is_file() else b""
    # A kill between the two writes leaves codes of another evaluation than the scores: those are not shown.
    if sha256(content) != scores["codes_sha256"]:
        return Scored(scores, None, None)
    try:
        images = ImageDataset(scores["data"], latents=run.latents)
    except UserError:
        return Scored(scores, None, None)  # the folder was moved or deleted since
    codes = codes_in(content, file)
    return Scored(scores, codes, images) if len(images) >= len(codes) else Scored(scores, None, None)


def check_scores(content: dict[str, Any]) -> None:
    """Raise ValueError or KeyError if scores are not of the kinds that a page shows."""
    kinds = {"scores": dict, "latents": list, "count": int, "data": str, "step": int, "codes_sha256": str}
    if wrong := next((name for name, kind in kinds.items() if type(content[name]) is not kind), None):
        raise ValueError(f"its {wrong} are of a wrong kind")
    if not all(isinstance(name, str) for name in content["latents"]):
        raise ValueError("a latent's name is no text")
    for name, score in content["scores"].items():
        values = score.get("per_latent") or [] if isinstance(score, dict) else None
        # Some scores hold a matrix, whose rows are not shown.
        rows = isinstance(values, list) and all(isinstance(row, list) for row in values)
        if not (isinstance(values, list) and is_figure(score.get("score")) and (rows or all(map(is_figure, values)))):
            raise ValueError(f"the score {name} is of a wrong kind")


def is_figure(value: object) -> bool:
    return value is None or isinstance(value, float) or (type(value) is int and abs(value) < LARGEST_FIGURE)


def codes_in(content: bytes, file: Path) -> NDArray[np.float64]:
    """Return the codes (n, d) of a .npy file's bytes."""
    try:
        codes = load_array(io.BytesIO(content))
        if codes.dtype.kind != "f" or codes.ndim != 2 or not codes.size:
            raise ValueError(f"an array of {codes.dtype} of shape {codes.shape}")
        # Compared as float32, the largest figure would overflow.
        codes = codes.astype(np.float64)
        if not (np.abs(codes) < LARGEST_FIGURE).all():
            raise ValueError("a number out of all bounds")
    except ValueError as error:
        raise UserError(f"{file} does not hold codes ({error}); `ident3d evaluate` writes it anew.") from None
    return codes
