"""Losses that learn what makes a pair: AnInfoNCE and TriCL a weight of each code in it, PCL a regression function."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize as unit
from torch.nn.functional import softplus

from ident3d.errors import UserError
from ident3d.training.loop.dtype import wide
from ident3d.training.losses.inputs import Pair, check_codes, check_shape, own_rows, two_views
from ident3d.training.losses.log_sum import log_sum_dot, log_sum_power
from ident3d.training.losses.similarities import inner


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


def tri_factor_nce(
    anchors: Tensor, positives: Tensor, scale: Tensor, *, tau: float = 0.2, released: bool = False
) -> Tensor:
    """Return -⟨s u, ũ⟩/τ + log Σ_{v ≠ u} exp ⟨s u, v⟩/τ, of unit codes; both views are anchors, v runs over both.

    The paper's form weighs every anchor by the diagonal s. As released, the code weighs the first views alone: second
    views as anchors have s = 1.

    Args:
        anchors: Codes of the first views (B, d).
        positives: Codes of the second views (B, d).
        scale: The diagonal s (d,), such as a `Precision` returns.
        tau: The temperature τ > 0.
        released: Take the form of the released code.

    Returns:
        One value per view (2B,), all first views before all second ones.

    Reference: Zhang, Wang and Wang, "Identifiable Contrastive Learning with Automatic Feature Importance Discovery",
    NeurIPS 2023.

    Example:
        >>> import torch
        >>> from ident3d.losses import tri_factor_nce
        >>> z = torch.eye(2)
        >>> tri_factor_nce(z, z, torch.tensor([1.0, 2.0]), tau=1, released=True)
        tensor([0.5514, 0.2395, 0.5514, 0.5514])
    """
    check_codes(anchors, positives)
    check_shape("scale", scale, anchors.shape[1])
    if not tau > 0:
        raise UserError(f"A temperature tau is above 0, not {tau:g}.")
    first, second = unit(wide(anchors), dim=1), unit(wide(positives), dim=1)
    both = torch.cat([first, second])
    left = torch.cat([first * wide(scale), second if released else second * wide(scale)]) / tau
    itself = torch.arange(len(both), device=both.device)
    return log_sum_dot(left, both, skip=itself) - inner(left, both.roll(len(anchors), 0))


def decorrelation(anchors: Tensor, positives: Tensor, *, stretched: bool = True) -> Tensor:
    """Return (1/d²) Σ_kl (C - I)_kl², C = (1/2B) Σ over both views of u uᵀ, of unit codes u.

    The diagonal of C has the mean 1/d, because codes have length 1, so that C cannot be I. `stretched` multiplies codes
    by √d, and then it can. The released code does not, and there the term has a least value above 0.

    Args:
        anchors: Codes of the first views (B, d).
        positives: Codes of the second views (B, d).
        stretched: Multiply unit codes by √d first.

    Returns:
        A tensor of no dimensions.

    Example:
        >>> import torch
        >>> from ident3d.losses import decorrelation
        >>> z = torch.eye(2)
        >>> decorrelation(z, z), decorrelation(z, z, stretched=False)
        (tensor(0.), tensor(0.1250))
    """
    check_codes(anchors, positives)
    both = unit(torch.cat([wide(anchors), wide(positives)]), dim=1)
    dim = both.shape[1]
    covariance = (dim if stretched else 1) * both.T @ both / len(both)
    return (covariance - torch.eye(dim, device=both.device, dtype=both.dtype)).square().mean()


class PairRegression(nn.Module):
    """r(y, y') = c + Σ_k (ā_k y_k + b̄_k)² - |a_k y_k + a'_k y'_k + b_k|, all of whose coefficients are trained.

    It is the log-odds of being a pair where latents are Laplace-distributed and change in a Laplace-distributed way. It
    starts at a = 1, a' = -1, ā = 0.1 and 0 elsewhere, where it depends on the difference of the codes above all.

    Args:
        dim: The number of codes d.

    Example:
        >>> import torch
        >>> from ident3d.losses import PairRegression
        >>> PairRegression(2)(torch.zeros(1, 2), torch.tensor([[1.0, 3.0]])).detach()
        tensor([-4.])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.here, self.there = nn.Parameter(torch.ones(dim)), nn.Parameter(-torch.ones(dim))
        self.offset = nn.Parameter(torch.zeros(dim))
        # At 0 the square would have no gradient, and would stay there.
        self.alone, self.alone_offset = nn.Parameter(torch.full((dim,), 0.1)), nn.Parameter(torch.zeros(dim))
        self.constant = nn.Parameter(torch.zeros(()))

    def forward(self, y: Tensor, other: Tensor) -> Tensor:
        """Return r of codes y and y', each (B, d): one value per row (B,)."""
        y, other = wide(y), wide(other)
        apart = (self.here * y + self.there * other + self.offset).abs()
        return self.constant + ((self.alone * y + self.alone_offset).square() - apart).sum(1)


def permutation_contrast(
    anchors: Tensor, positives: Tensor, regression: Callable[[Tensor, Tensor], Tensor], shift: int = 1
) -> Tensor:
    """Return PCL's -log s(r(z̃_i, z_i)) - log (1 - s(r(z̃_i, z_j))), s the sigmoid: pairs are told from random ones.

    Args:
        anchors: Codes z (B, d), such as those of earlier frames.
        positives: Codes z̃ (B, d); row i is the positive of anchor i.
        regression: r of two tensors (B, d), such as a `PairRegression`.
        shift: j is i - shift modulo B: the anchor that the positive is wrongly paired with. Draw it anew in each step.

    Returns:
        One value per anchor (B,).

    Reference: Hyvärinen and Morioka, "Nonlinear ICA of Temporally Dependent Stationary Sources", AISTATS 2017. The
    regression function is written from memory of it; no public code was at hand.

    Example:
        >>> import torch
        >>> from ident3d.losses import minus_power, permutation_contrast
        >>> z = torch.tensor([[0.0], [2.0]])
        >>> permutation_contrast(z, z, lambda y, other: minus_power(y, other, p=1))
        tensor([0.8201, 0.8201])
    """
    check_codes(anchors, positives)
    if not shift % len(anchors):
        raise UserError(f"A shift of {shift} among {len(anchors)} anchors leaves every positive with its own anchor.")
    right, wrong = regression(positives, anchors), regression(positives, anchors.roll(shift, 0))
    return softplus(-right) + softplus(wrong)
