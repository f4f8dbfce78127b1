"""The identity row: what a linear map finds in the pixels themselves, without any encoder."""

import numpy as np

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset

# A direction whose eigenvalue is a smaller share of the largest one is rounding.
SMALLEST = 1e-10


def identity_r2(images: ImageDataset, count: int = 4096, seed: int = 0) -> float:
    """Return the mean held-out R² of the least-squares map of least norm from pixels, fitted on a half of the images.

    There are more pixels than images, so it is solved among images: with K = X Xᵀ, ẑ = X_new Xᵀ K⁺ Z.
    """
    numbers = np.random.default_rng(seed).permutation(min(count, len(images)))
    half = len(numbers) // 2
    if half < 2:
        raise UserError("The identity row needs at least 4 test images.")
    x = images.images(numbers).reshape(len(numbers), -1).astype(np.float32) / 255
    z = images.latents(numbers).astype(np.float64)
    x -= x[:half].mean(0)
    centre = z[:half].mean(0)
    kernel = (x @ x[:half].T).astype(np.float64)
    weights = np.linalg.pinv(kernel[:half], rcond=SMALLEST, hermitian=True) @ (z[:half] - centre)
    residual = z[half:] - centre - kernel[half:] @ weights
    unexplained = (residual**2).mean(0) / z[half:].var(0)
    return float((1 - unexplained).mean())
