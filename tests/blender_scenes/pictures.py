"""The reference scenes, and the measure that images are compared by."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

REFERENCE = Path(__file__).parent.parent / "data" / "reference"
TO_SCENE = np.array([3.0] * 3 + [np.pi / 2] * 7, dtype=np.float32)


def reference_scenes() -> NDArray[np.float32]:
    """Scene latents of the twenty reference pictures."""
    raw: NDArray[np.float32] = np.load(REFERENCE / "raw_latents.npy", allow_pickle=False)
    return raw * TO_SCENE


def reference_picture(index: int) -> NDArray[np.uint8]:
    """The original scene's render of one of them."""
    with Image.open(REFERENCE / f"{index:02d}.png") as picture:
        return np.asarray(picture.convert("RGB"))


def psnr(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """10 log10(255^2 / mean squared difference), in dB."""
    return float(10 * np.log10(255**2 / np.mean((a.astype(np.float64) - b) ** 2)))
