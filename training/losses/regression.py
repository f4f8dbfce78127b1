"""Supervised regression: the ceiling that contrastive codes are compared with."""

from torch import Tensor

from ident3d.training.loop.precision import wide


def mean_squared_error(codes: Tensor, latents: Tensor) -> Tensor:
    """(1/d) Σ_k (h_k - z_k)² for codes h and latents z (B, d) → (B,)."""
    return (wide(codes) - latents).square().mean(1)


def r2(codes: Tensor, latents: Tensor) -> Tensor:
    """1 - Σ_i (h_ik - z_ik)² / Σ_i (z_ik - z̄_k)² for codes h and latents z (B, d) → (d,): R² without any fit."""
    residual = (wide(codes) - latents).square().sum(0)
    return 1 - residual / (latents - latents.mean(0)).square().sum(0)
