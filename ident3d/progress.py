"""Progress bars with rate and time left, for everything that may take more than five seconds."""

import sys
from typing import Any

from tqdm import tqdm


def progress_bar(total: int, unit: str, *, initial: int = 0, show: bool = True) -> "tqdm[Any]":
    """A bar on standard error; on a terminal it moves ten times a second, in a log it adds a line every half minute."""
    terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        initial=initial,
        unit=f" {unit}",
        disable=not show,
        dynamic_ncols=terminal,
        ncols=None if terminal else 100,
        mininterval=0.1 if terminal else 30,
        smoothing=0.05,
    )
