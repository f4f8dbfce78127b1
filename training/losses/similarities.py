"""Similarities of a sample and its partner: s(a, b) over the last dimension, for tensors that broadcast."""

import torch
from torch import Tensor

from ident3d.training.loop.precision import wide


def inner(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩ for a, b (..., d) → (...)."""
    return (wide(a) * wide(b)).sum(-1)


def minus_power(a: Tensor, b: Tensor, p: float, *, root: bool = False) -> Tensor:
    """-Σ_k |a_k - b_k|^p for a, b (..., d) → (...); `root` takes the p-th root of the sum. 0 has gradient 0."""
    difference = wide(a) - wide(b)
    if root:
        norm: Tensor = torch.linalg.vector_norm(difference, p, dim=-1)
        return -norm
    return -difference.abs().pow(p).sum(-1)


def minus_quadratic(a: Tensor, b: Tensor, precision: Tensor) -> Tensor:
    """-½ Σ_k λ_k (a_k - b_k)² for a, b (..., d) and λ = `precision` (d,) → (...)."""
    return -0.5 * ((wide(a) - wide(b)).square() * precision).sum(-1)
