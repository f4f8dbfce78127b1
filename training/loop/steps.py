"""What each step of a training loop starts from: a seed of its own, and its learning rates."""

from enum import IntEnum
from math import cos, pi
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch.optim import Optimizer  # settings check SCHEDULES, and load no torch

SCHEDULES = ("constant", "onecycle", "cosine")

# Those of torch's OneCycleLR: the share of steps in which the rate rises, the share of the highest rate that it starts
# from (1 / 25), and that which it ends at (1 / 25 / 1e4, here 1e-4 of the highest).
RISING, START, END = 0.3, 0.04, 1e-4


class Stream(IntEnum):
    """Which of a seed's independent streams of draws: the last of the three numbers that `seed_of` takes.

    A rank of a training uses its own number, so the streams of mixed latents, which have no ranks, begin at 1. The
    numbers are part of every result: they never change.
    """

    TRAINING = 0
    MINIMUM_FITTED = 1
    MINIMUM_SCORED = 2
    WHITENING = 3
    SCORES = 4


def seed_of(seed: int, step: int, rank: int = 0) -> int:
    """Return a seed for each step of each rank (or `Stream`), so that a resumed run draws what it would have drawn."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0]) >> 1


def rate_factor(schedule: str, steps: int, step: int) -> float:
    """Return the factor of the learning rate: 1, half a cosine down to 0, or up in 30 % of the steps and then down."""
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return (1 + cos(pi * step / steps)) / 2
    up = max(1.0, RISING * steps)
    if step < up:
        return START + (1 - START) * (1 - cos(pi * step / up)) / 2
    return END + (1 - END) * (1 + cos(pi * (step - up) / max(1.0, steps - up))) / 2


def set_rates(optimiser: "Optimizer", rates: list[float], factor: float) -> None:
    """Set the learning rate of each of the optimiser's groups."""
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate * factor
