"""A user's own image encoder: a backbone, or a whole encoder that gives the codes itself. What it gives decides."""

from copy import deepcopy

import torch
from torch import Tensor, nn


def gives_codes(module: nn.Module, dim: int, size: int, channels: int = 3) -> bool:
    """Return whether the module gives `dim` numbers for an image: then no layer follows but the output space."""
    # A copy is tried, in evaluation mode, so that neither statistics nor draws of the module itself move.
    trial = deepcopy(module).eval()
    with torch.random.fork_rng(devices=()), torch.no_grad():
        try:
            found = trial(torch.zeros(2, channels, size, size))
        # What is wrong with it is said when it gets real images.
        except Exception:
            return False
    return isinstance(found, Tensor) and found.shape == (2, dim)
