"""Supervised regression: the ceiling that contrastive codes are compared with."""

from torch import Tensor

from ident3d.training.loop.dtype import wide
from ident3d.training.losses.inputs import check_shape


def mean_squared_error(codes: Tensor, latents: Tensor) -> Tensor:
    """Return (1/d) Σ_k (h_k - z_k)².

    Args:
        codes: Codes h (B, d).
        latents: Latents z (B, d).

    Returns:
        One value per sample (B,).

    Example:
        >>> import torch
        >>> from ident3d.losses import mean_squared_error
        >>> mean_squared_error(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0]]))
        tensor([2.])
    """
    check_shape("codes", codes, "B", "d")
    check_shape("latents", latents, *codes.shape)
    return (wide(codes) - latents).square().mean(1)


def r2(codes: Tensor, latents: Tensor) -> Tensor:
    """Return 1 - Σ_i (h_ik - z_ik)² / Σ_i (z_ik - z̄_k)²: R² of codes that are latents, without any fit.

    Args:
        codes: Codes h (B, d).
        latents: Latents z (B, d).

    Returns:
        One value per latent (d,).

    Example:
        >>> import torch
        >>> from ident3d.losses import r2
        >>> r2(torch.tensor([[0.0], [1.0], [1.0]]), torch.tensor([[0.0], [1.0], [2.0]]))
        tensor([0.5000])
    """
    check_shape("codes", codes, "B", "d")
    check_shape("latents", latents, *codes.shape)
    residual = (wide(codes) - latents).square().sum(0)
    return 1 - residual / (latents - latents.mean(0)).square().sum(0)
