"""Contrastive losses on codes of anchors, positives and negatives; each returns one value per anchor, to be averaged.

Negatives are what an anchor's positive is compared with. By default they are the anchors' own codes: the public code
rolls the batch by one, so that each of B anchors sees B negatives, among them itself; a sum over all of them does not
depend on their order, so nothing is rolled here. Codes of all ranks, or of independent samples, may be given instead.
If anchors stand among the negatives, `first_row` names the row at which they begin, and each leaves itself out.

The denominator is a log-sum over the negatives and the positive. Codes may come in 16 bits; all sums are made in
float32 or wider.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize as unit

from ident3d.errors import UserError
from ident3d.training.loop.dtype import wide
from ident3d.training.losses.inputs import Pair, check_codes, check_power, check_shape, own_rows, two_views
from ident3d.training.losses.log_sum import log_sum_dot, log_sum_power
from ident3d.training.losses.similarities import inner, minus_power

Temperature = float | Tensor


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None = None,
    *,
    tau: Temperature = 1.0,
    normalize: bool = False,
    first_row: int | None = None,
) -> Tensor:
    """Return L_contr, for codes on a sphere: -⟨z, z̃⟩/τ + log(exp ⟨z, z̃⟩/τ + Σ_j exp ⟨z, z_j⁻⟩/τ).

    Args:
        anchors: Codes z (B, d).
        positives: Codes z̃ (B, d); row i is the positive of anchor i.
        negatives: Codes z⁻ (N, d) that every anchor is compared with; by default the anchors.
        tau: The temperature τ > 0, a number or a tensor of one value that may be learnt.
        normalize: Project all codes onto the unit sphere first.
        first_row: The row of the negatives at which the anchors begin, to leave each anchor out of its own sum.

    Returns:
        One value per anchor (B,).

    Reference: Zimmermann et al., "Contrastive Learning Inverts the Data Generating Process", ICML 2021.

    Example:
        >>> import torch
        >>> from ident3d.losses import info_nce
        >>> z = torch.eye(3)
        >>> info_nce(z, z, tau=0.5)
        tensor([0.8201, 0.8201, 0.8201])
        >>> info_nce(z, z, tau=0.5, first_row=0)
        tensor([0.2395, 0.2395, 0.2395])
    """
    check_codes(anchors, positives, negatives)
    negatives = anchors if negatives is None else negatives
    if normalize:
        anchors, positives, negatives = (unit(wide(x), dim=1) for x in (anchors, positives, negatives))
    # Every similarity holds one anchor, so dividing the anchors by τ is enough.
    anchors = wide(anchors) / _temperature(tau)
    skip = None if first_row is None else own_rows(anchors, negatives, first_row)
    log_sum = log_sum_dot(anchors, negatives, skip=skip)
    return _contrast(inner(anchors, positives), log_sum)


def delta_contrastive(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None = None,
    *,
    p: float = 2.0,
    tau: Temperature = 1.0,
    first_row: int | None = None,
) -> Tensor:
    """Return L_δ-contr: δ(z, z̃)/τ + log(exp -δ(z, z̃)/τ + Σ_j exp -δ(z, z_j⁻)/τ), δ(a, b) = Σ_k |a_k - b_k|^p.

    Args:
        anchors: Codes z (B, d).
        positives: Codes z̃ (B, d); row i is the positive of anchor i.
        negatives: Codes z⁻ (N, d) that every anchor is compared with; by default the anchors.
        p: The power of δ, at least 1.
        tau: The temperature τ > 0, a number or a tensor of one value that may be learnt.
        first_row: The row of the negatives at which the anchors begin, to leave each anchor out of its own sum.

    Returns:
        One value per anchor (B,).

    Reference: Zimmermann et al., ICML 2021.

    Example:
        >>> import torch
        >>> from ident3d.losses import delta_contrastive
        >>> z = torch.tensor([[0.0], [1.0], [3.0]])
        >>> delta_contrastive(z, z + 0.1, p=1)
        tensor([0.9426, 0.9788, 0.8371])
    """
    check_codes(anchors, positives, negatives)
    negatives = anchors if negatives is None else negatives
    # |x/τ^(1/p)|^p = |x|^p/τ: the temperature becomes a unit of length, and costs no pass over the similarities.
    scale = _temperature(tau) ** (-1 / check_power(p))
    anchors, positives, negatives = (wide(x) * scale for x in (anchors, positives, negatives))
    skip = None if first_row is None else own_rows(anchors, negatives, first_row)
    log_sum = log_sum_power(anchors, negatives, p, skip=skip)
    return _contrast(minus_power(anchors, positives, p), log_sum)


def two_view_info_nce(
    anchors: Tensor,
    positives: Tensor,
    negatives: Pair | None = None,
    *,
    first_row: int = 0,
    tau: Temperature = 1.0,
    normalize: bool = True,
) -> Tensor:
    """Return SimCLR's NT-Xent: -⟨u, ũ⟩/τ + log Σ_{v ≠ u} exp ⟨u, v⟩/τ; both views are anchors, v runs over both.

    Args:
        anchors: Codes of the first views (B, d).
        positives: Codes of the second views (B, d).
        negatives: Both views, each (N, d), of a larger batch that holds this one; by default this one.
        first_row: The row of the larger batch at which this one begins.
        tau: The temperature τ > 0, a number or a tensor of one value that may be learnt.
        normalize: Project all codes onto the unit sphere first.

    Returns:
        One value per view (2B,), all first views before all second ones.

    Reference: Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020.

    Example:
        >>> import torch
        >>> from ident3d.losses import two_view_info_nce
        >>> views = torch.eye(3)
        >>> two_view_info_nce(views, views, tau=0.5)
        tensor([0.4327, 0.4327, 0.4327, 0.4327, 0.4327, 0.4327])
    """
    check_codes(anchors, positives)
    ours = torch.cat([wide(anchors), wide(positives)])
    theirs = ours if negatives is None else torch.cat([wide(view) for view in two_views(anchors, negatives)])
    if normalize:
        ours, theirs = unit(ours, dim=1), unit(theirs, dim=1)
    ours = ours / _temperature(tau)
    # `theirs` holds N first views, then N second views. These are the rows at which ours stand among them.
    rows = own_rows(anchors, theirs[: len(theirs) // 2], first_row)
    itself = torch.cat([rows, len(theirs) // 2 + rows])
    return log_sum_dot(ours, theirs, skip=itself) - inner(ours, theirs[itself.roll(len(anchors))])


def hard_negatives(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor,
    similarity: Callable[[Tensor, Tensor], Tensor] = inner,
    others: Tensor | None = None,
) -> Tensor:
    """Return -s(z, z̃) + log(exp s(z, z̃) + Σ_m exp s(z, z_m⁻) + exp o): every anchor has negatives of its own.

    Negatives of one anchor may come from a conditional around it: with precisions Λ⁺ for positives and Λ⁻ for
    negatives, the best s has precision Λ⁺ - Λ⁻.

    Args:
        anchors: Codes z (B, d).
        positives: Codes z̃ (B, d); row i is the positive of anchor i.
        negatives: Codes z⁻ (B, M, d), M of them for every anchor.
        similarity: A function s of two tensors (..., d) that broadcast, such as `inner` or a partial `minus_power`.
        others: The log-sum o (B,) over negatives that all anchors share, such as `log_sum_dot(z, codes)`; none by
            default.

    Returns:
        One value per anchor (B,).

    Example:
        >>> import torch
        >>> from ident3d.losses import hard_negatives
        >>> z = torch.eye(2)
        >>> hard_negatives(z, z, negatives=torch.stack([z, -z], dim=1))
        tensor([0.7586, 0.7586])
    """
    check_codes(anchors, positives)
    check_shape("negatives", negatives, len(anchors), "M", anchors.shape[1])
    if others is not None:
        check_shape("others", others, len(anchors))
    own = similarity(anchors[:, None], negatives).logsumexp(1)
    return _contrast(similarity(anchors, positives), own if others is None else torch.logaddexp(own, others))


def ensemble(
    losses: Sequence[Callable[[Tensor, Tensor], Tensor]], views: Sequence[Pair], weights: Sequence[float] | None = None
) -> Tensor:
    """Return Σ_m w_m mean L_m(z_m, z̃_m), Σ_m w_m = 1: one encoder, several ways to draw pairs, a loss for each.

    Args:
        losses: Functions of anchors and positives that return one value per anchor.
        views: As many pairs of anchors and positives, each (B_m, d).
        weights: As many numbers of at least 0, which are divided by their sum; equal ones by default.

    Returns:
        The weighted mean, a tensor of no dimensions.

    Example:
        >>> import torch
        >>> from ident3d.losses import alignment, ensemble
        >>> z = torch.zeros(4, 2)
        >>> ensemble([alignment, alignment], [(z, z + 1), (z, z + 2)], weights=[3, 1])
        tensor(3.5000)
    """
    weights = [1.0] * len(losses) if weights is None else weights
    if not len(losses) == len(views) == len(weights) or not losses:
        counts = f"{len(losses)} losses, {len(views)} views and {len(weights)} weights"
        raise UserError(f"An ensemble has a loss, two views and a weight for each member, not {counts}.")
    if min(weights) < 0 or sum(weights) == 0:
        raise UserError("The weights of an ensemble are not negative, and at least one is above 0.")
    # Means first: members may have batches of different sizes, and count by their weights alone.
    means = [loss(*pair).mean() for loss, pair in zip(losses, views, strict=True)]
    return torch.stack([w / sum(weights) * mean for w, mean in zip(weights, means, strict=True)]).sum()


def _contrast(positive: Tensor, log_sum: Tensor) -> Tensor:
    """Return -s⁺ + the log-sum over the negatives and the positive."""
    return torch.logaddexp(positive, log_sum) - positive


def _temperature(tau: Temperature) -> Temperature:
    if isinstance(tau, Tensor) and tau.numel() != 1:
        raise UserError(f"tau must be one number, not a tensor of the shape {tuple(tau.shape)}.")
    if isinstance(tau, float | int) and not tau > 0:
        raise UserError(f"A temperature tau is above 0, not {tau:g}.")
    return tau
