"""AnInfoNCE: InfoNCE whose similarity learns how much each latent varies within a pair."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize as unit
from torch.nn.functional import softplus

from ident3d.training.loop.dtype import wide
from ident3d.training.losses.inputs import Pair, check_codes, check_shape, own_rows, two_views
from ident3d.training.losses.log_sum import log_sum_power


class Precision(nn.Module):
    """Λ̂, a positive diagonal to be trained: softplus of `dim` free parameters that start at N(0, 0.1).

    Args:
        dim: The number of codes d.
        generator: What draws the start; by default PyTorch's global generator.

    Example:
        >>> from ident3d.losses import Precision
        >>> precision = Precision(5)
        >>> precision().shape, bool((precision() > 0).all())
        (torch.Size([5]), True)
    """

    def __init__(self, dim: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        # Trained before softplus, so that no step can make an entry negative.
        self.free = nn.Parameter(0.1 * torch.randn(dim, generator=generator))

    def forward(self) -> Tensor:
        """Return the diagonal (d,)."""
        return softplus(self.free)


def an_info_nce(
    anchors: Tensor,
    positives: Tensor,
    precision: Tensor,
    negatives: Pair | None = None,
    *,
    first_row: int = 0,
    normalize: bool = True,
) -> Tensor:
    """Return -s(z, z̃) + log(Σ_{j≠i} exp s(z_i, z_j) + Σ_j exp s(z_i, z̃_j)), s(a, b) = -½ (a-b)ᵀ Λ̂ (a-b).

    Both views are anchors, and negatives come from both. For the second views z̃_i the log-sum is over
    Σ_{j≠i} exp s(z̃_i, z̃_j) and, as in the public code, once more over Σ_j exp s(z_i, z̃_j).

    Args:
        anchors: Codes z of the first views (B, d).
        positives: Codes z̃ of the second views (B, d).
        precision: The diagonal of Λ̂ (d,), such as a `Precision` returns.
        negatives: Both views, each (N, d), of a larger batch that holds this one; by default this one.
        first_row: The row of the larger batch at which this one begins.
        normalize: Project all codes onto the unit sphere first.

    Returns:
        One value per view (2B,), all first views before all second ones.

    Reference: Rusak et al., "InfoNCE: Identifying the Gap Between Theory and Practice", 2024.

    Example:
        >>> import torch
        >>> from ident3d.losses import an_info_nce
        >>> z = torch.eye(3)
        >>> an_info_nce(z, z, torch.tensor([1.0, 2.0, 4.0]))
        tensor([0.4765, 0.4356, 0.2341, 0.4765, 0.4356, 0.2341])
    """
    check_codes(anchors, positives)
    check_shape("precision", precision, anchors.shape[1])
    z, z_tilde = wide(anchors), wide(positives)
    all_z, all_z_tilde = (z, z_tilde) if negatives is None else map(wide, two_views(anchors, negatives))
    itself = own_rows(z, all_z, first_row)
    # |√(Λ̂/2) (a-b)|² = ½ (a-b)ᵀ Λ̂ (a-b): in scaled coordinates the similarity is a plain squared distance.
    scale = (wide(precision) / 2).sqrt()
    z, z_tilde, all_z, all_z_tilde = (
        (unit(x, dim=1) if normalize else x) * scale for x in (z, z_tilde, all_z, all_z_tilde)
    )
    # Made once and used for both views, as the public code does.
    across = log_sum_power(z, all_z_tilde, 2)
    log_sum = torch.cat([
        torch.logaddexp(log_sum_power(z, all_z, 2, skip=itself), across),
        torch.logaddexp(log_sum_power(z_tilde, all_z_tilde, 2, skip=itself), across),
    ])  # fmt: skip
    return log_sum + (z - z_tilde).square().sum(1).repeat(2)
