"""Progress bars with rate and time left, for everything that may take more than five seconds."""

import sys
from typing import Any

from tqdm import tqdm


def progress_bar(total: int, unit: str, *, initial: int = 0, show: bool = True) -> "tqdm[Any]":
    """Return a progress bar on standard error."""
    # On a terminal the bar moves ten times a second; in a log every move is a line, so it moves twice a minute.
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
