"""What each step of a training loop starts from: a seed of its own, and its learning rates."""

from math import cos, pi
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch.optim import Optimizer  # settings check SCHEDULES, and load no torch

SCHEDULES = ("constant", "onecycle", "cosine")


def seed_of(seed: int, step: int, rank: int = 0) -> int:
    """A seed for each step of each rank, so that a resumed run draws what it would have drawn."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0]) >> 1


def rate_factor(schedule: str, steps: int, step: int) -> float:
    """What the learning rate is multiplied by: 1, half a cosine down to nothing, or up in 30 % of the steps first."""
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return (1 + cos(pi * step / steps)) / 2
    up = max(1.0, 0.3 * steps)
    if step < up:
        return 0.04 + 0.96 * (1 - cos(pi * step / up)) / 2
    return 1e-4 + (1 - 1e-4) * (1 + cos(pi * (step - up) / max(1.0, steps - up))) / 2


def set_rates(optimiser: "Optimizer", rates: list[float], factor: float) -> None:
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate * factor
