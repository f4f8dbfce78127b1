"""A small dataset with factors of every kind, names that are no good HTML, sequences and environments."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ident3d
from ident3d import Factor

N, SIZE = 240, 16
FRAMES = 4
NASTY = "</script><script>alert(1)</script>"
FACTORS = (
    Factor(NASTY, range=(0, 10)),
    Factor("turn", "periodic", range=(0, 360)),
    Factor("steps", values=(1, 2, 4, 8)),
    Factor("kind", "categorical", values=("<img src=x onerror=alert(1)>", "dog", "hare")),
    Factor("quarter", "periodic", range=(0, 4), values=(0, 1, 2, 3)),
    Factor("held", range=(0, 1)),
)


def picture_of_number(number: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pictures of one colour, which tells the number of the image."""
    colour = np.stack([number % 256, number // 256, 7 * number % 256], 1).astype(np.uint8)
    return np.broadcast_to(colour[:, None, None], (len(number), SIZE, SIZE, 3)).copy()


def make_lookable(path: Path, n: int = N) -> Path:
    rng = np.random.default_rng(5)
    scene = [rng.uniform(0, 10, n), rng.uniform(0, 360, n), rng.choice([1, 2, 4, 8], n)]
    scene += [rng.integers(0, 3, n), rng.integers(0, 4, n), np.full(n, 0.25)]
    number = np.arange(n)
    columns = {"sequence": number // FRAMES, "frame": number % FRAMES, "environment": number // FRAMES % 2}
    images = picture_of_number(number)
    ident3d.from_arrays(
        images, np.stack(scene, 1), path, factors=FACTORS, columns=columns, name="looked at", show_progress=False
    )
    return path


def nearest(raw: NDArray[np.float32], target: list[float]) -> int:
    """The number of the image nearest to a target, from raw latents: wrong kinds last, circles the shorter way."""
    away = np.abs(raw.astype(np.float64) - target)
    for k, factor in enumerate(FACTORS):
        if factor.kind == "periodic":
            away[:, k] = np.minimum(away[:, k], 2 - away[:, k])
        elif factor.kind == "categorical":
            away[:, k] = np.where(away[:, k] > 1e-4, 100, 0)
    return int(np.argmin((away**2).sum(1)))
