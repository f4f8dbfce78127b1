"""Images that a run's decoder makes: reconstructions, and walks along single codes."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ident3d.training.images.run import Run
from ident3d.training.images.setup import objective_of
from ident3d.training.loop import checkpoint
from ident3d.training.losses.autoencoder import Autoencoder

Codes = NDArray[np.float64]
# From this quantile of a code to the one as far from the other end, in so many steps.
LOW, STEPS = 0.02, 7


def trained_decoder(run: Run) -> nn.Module:
    """Return the decoder of an autoencoder's run, with its trained weights: codes (N, d) → logits (N, C, 64, 64)."""
    objective = objective_of(run.settings, run.pixels.channels)
    checkpoint.restore(objective, checkpoint.load(run.path).part(checkpoint.OBJECTIVE), f"loss {run.settings.loss}")
    assert isinstance(objective, Autoencoder)
    return objective.decoder.eval()


@torch.no_grad()
def decode(decoder: nn.Module, codes: Codes) -> NDArray[np.uint8]:
    """Return the images (N, 64, 64, C) of codes (N, d)."""
    logits = decoder(torch.from_numpy(codes.astype(np.float32)))
    images: NDArray[np.uint8] = (255 * logits.sigmoid()).round().byte().permute(0, 2, 3, 1).numpy()
    return images


def walk(codes: Codes, start: int, k: int) -> Codes:
    """Return the codes of image `start` (STEPS, d), with code k from its low quantile among all images to its high."""
    along: Codes = np.tile(codes[start], (STEPS, 1))
    low, high = (float(np.quantile(codes[:, k], share)) for share in (LOW, 1 - LOW))
    along[:, k] = np.linspace(low, high, STEPS)
    return along
