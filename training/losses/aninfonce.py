"""AnInfoNCE: InfoNCE whose similarity learns how much each latent varies within a pair."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize as unit
from torch.nn.functional import softplus

from ident3d.training.loop.precision import wide
from ident3d.training.losses.contrastive import Pair
from ident3d.training.losses.log_sum import log_sum_power


class Precision(nn.Module):
    """Λ̂, a positive diagonal to be trained: softplus of `dim` free parameters that start at N(0, 0.1)."""

    def __init__(self, dim: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.free = nn.Parameter(0.1 * torch.randn(dim, generator=generator))

    def forward(self) -> Tensor:
        """The diagonal (d,)."""
        return softplus(self.free)


def an_info_nce(
    anchors: Tensor,
    positives: Tensor,
    precision: Tensor,
    candidates: Pair | None = None,
    *,
    first: int = 0,
    normalize: bool = True,
    symmetric: bool = False,
) -> Tensor:
    """-s(z, z̃) + log(Σ_{j≠i} exp s(z_i, z_j) + Σ_j exp s(z_i, z̃_j)), s(a, b) = -½ (a-b)ᵀ Λ̂ (a-b), then z̃_i likewise.

    anchors, positives (B, d), precision Λ̂ (d,) → (2B,): both views are anchors, and candidates come from both.
    For the second views the public code takes Σ_j exp s(z_i, z̃_j) over again; `symmetric` takes Σ_j exp s(z̃_i, z_j).
    `candidates` are both views (N, d) of a larger batch, in which this one begins at row `first`.
    """
    z, z_tilde = wide(anchors), wide(positives)
    all_z, all_z_tilde = (z, z_tilde) if candidates is None else (wide(view) for view in candidates)
    # |√(Λ̂/2) (a-b)|² = ½ (a-b)ᵀ Λ̂ (a-b): in scaled coordinates the similarity is a plain squared distance
    scale = (wide(precision) / 2).sqrt()
    z, z_tilde, all_z, all_z_tilde = (
        (unit(x, dim=1) if normalize else x) * scale for x in (z, z_tilde, all_z, all_z_tilde)
    )
    itself = first + torch.arange(len(z), device=z.device)
    across = log_sum_power(z, all_z_tilde, 2)
    across_back = log_sum_power(z_tilde, all_z, 2) if symmetric else across
    log_sum = torch.cat([
        torch.logaddexp(log_sum_power(z, all_z, 2, skip=itself), across),
        torch.logaddexp(log_sum_power(z_tilde, all_z_tilde, 2, skip=itself), across_back),
    ])  # fmt: skip
    return log_sum + (z - z_tilde).square().sum(1).repeat(2)
