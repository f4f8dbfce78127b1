"""Contrastive losses on codes of anchors, positives and candidates; each returns one value per anchor, to be averaged.

Candidates are what an anchor's positive is told from. By default they are the anchors' own codes: the public code rolls
the batch by one, so that each of B anchors sees B negatives, among them itself; a sum over all of them does not depend
on their order, so nothing is rolled here. Codes of all ranks, or of independent samples, may be given instead. Where
anchors stand among the candidates, `own_row` names the row at which they begin, and each leaves itself out.

The denominator is a log-sum over candidates and the positive. `with_positive=False` leaves the positive out,
`log_mean=True` divides by the number of terms. Codes may come in 16 bits; all sums are made in float32 or wider.
"""

from collections.abc import Callable, Sequence
from math import inf, log

import torch
from torch import Tensor
from torch.nn.functional import normalize as unit

from ident3d.errors import UserError
from ident3d.training.loop.precision import wide
from ident3d.training.losses.log_sum import log_sum_dot, log_sum_power
from ident3d.training.losses.similarities import inner, minus_power

Temperature = float | Tensor
Pair = tuple[Tensor, Tensor]


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    candidates: Tensor | None = None,
    *,
    tau: Temperature = 1.0,
    normalize: bool = False,
    own_row: int | None = None,
    with_positive: bool = True,
    log_mean: bool = False,
) -> Tensor:
    """L_contr: -⟨z, z̃⟩/τ + log(exp ⟨z, z̃⟩/τ + Σ_j exp ⟨z, z_j⁻⟩/τ), on codes of a sphere.

    anchors, positives (B, d), candidates (N, d) → (B,). `normalize` projects raw codes onto the unit sphere first.
    """
    candidates = anchors if candidates is None else candidates
    if normalize:
        anchors, positives, candidates = (unit(wide(x), dim=1) for x in (anchors, positives, candidates))
    anchors = wide(anchors) / _positive(tau)
    log_sum = log_sum_dot(anchors, candidates, skip=_own(anchors, own_row))
    return _contrast(
        inner(anchors, positives), log_sum, len(candidates) - (own_row is not None), with_positive, log_mean
    )


def delta_contrastive(
    anchors: Tensor,
    positives: Tensor,
    candidates: Tensor | None = None,
    *,
    p: float = 2.0,
    tau: Temperature = 1.0,
    root: bool = False,
    own_row: int | None = None,
    with_positive: bool = True,
    log_mean: bool = False,
) -> Tensor:
    """L_δ-contr: δ(z, z̃)/τ + log(exp -δ(z, z̃)/τ + Σ_j exp -δ(z, z_j⁻)/τ), δ(a, b) = Σ_k |a_k - b_k|^p, p ≥ 1.

    anchors, positives (B, d), candidates (N, d) → (B,). `root` takes the p-th root of the sum: δ is the Lp norm.
    """
    candidates = anchors if candidates is None else candidates
    power = _at_least_one(p)
    scale = _positive(tau) ** (-1.0 if root else -1 / power)
    anchors, positives, candidates = (wide(x) * scale for x in (anchors, positives, candidates))
    log_sum = log_sum_power(anchors, candidates, p, root=root, skip=_own(anchors, own_row))
    n = len(candidates) - (own_row is not None)
    return _contrast(minus_power(anchors, positives, p, root=root), log_sum, n, with_positive, log_mean)


def two_view_info_nce(
    anchors: Tensor,
    positives: Tensor,
    candidates: Pair | None = None,
    *,
    first: int = 0,
    tau: Temperature = 1.0,
    normalize: bool = True,
) -> Tensor:
    """SimCLR's NT-Xent: -⟨u, ũ⟩/τ + log Σ_{v ≠ u} exp ⟨u, v⟩/τ; both views are anchors, v runs over both views.

    anchors, positives (B, d) → (2B,), all first views before all second ones; with B samples there are 2B-1 candidates.
    `candidates` are both views (N, d) of a larger batch, in which this one begins at row `first`.
    """
    ours = torch.cat([wide(anchors), wide(positives)])
    theirs = ours if candidates is None else torch.cat([wide(view) for view in candidates])
    if normalize:
        ours, theirs = unit(ours, dim=1), unit(theirs, dim=1)
    ours = ours / _positive(tau)
    # theirs holds N first views, then N second views: where ours stand among them
    rows = first + torch.arange(len(anchors), device=ours.device)
    itself = torch.cat([rows, len(theirs) // 2 + rows])
    return log_sum_dot(ours, theirs, skip=itself) - inner(ours, theirs[itself.roll(len(anchors))])


def alignment(anchors: Tensor, positives: Tensor, *, p: float = 2.0) -> Tensor:
    """Σ_k |z_k - z̃_k|^p: how near a pair's codes are. anchors, positives (B, d) → (B,)."""
    return -minus_power(anchors, positives, _at_least_one(p))


def uniformity(anchors: Tensor, candidates: Tensor | None = None, *, p: float = 2.0) -> Tensor:
    """log (1/N) Σ_j exp -Σ_k |z_k - z_jk⁻|^p: how crowded an anchor's code is. (B, d), (N, d) → (B,)."""
    candidates = anchors if candidates is None else candidates
    return log_sum_power(anchors, candidates, _at_least_one(p)) - log(len(candidates))


def alignment_uniformity(
    anchors: Tensor, positives: Tensor, candidates: Tensor | None = None, *, alpha: float = 0.5, p: float = 2.0
) -> Tensor:
    """L_AU(α, p): (1-α) alignment(z, z̃) + α uniformity(z, z⁻), on all coordinates. → (B,).

    The public code averages over anchors inside the logarithm and over candidates outside: the same where the
    candidates are the anchors, else `uniformity(candidates, anchors)`.
    """
    if not 0 <= alpha <= 1:
        raise UserError(f"α shares out alignment and uniformity, so it lies between 0 and 1, not at {alpha:g}.")
    return (1 - alpha) * alignment(anchors, positives, p=p) + alpha * uniformity(anchors, candidates, p=p)


def hard_negatives(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor,
    similarity: Callable[[Tensor, Tensor], Tensor] = inner,
    others: Tensor | None = None,
) -> Tensor:
    """-s(z, z̃) + log(exp s(z, z̃) + Σ_m exp s(z, z_m⁻) + exp o): every anchor has its own negatives z_m⁻.

    anchors, positives (B, d), negatives (B, M, d) → (B,). Negatives of one anchor may come from a conditional around
    it: with precisions Λ⁺ for positives and Λ⁻ for negatives, the best s has precision Λ⁺ - Λ⁻. `others` (B,) is the
    log-sum o over candidates that all anchors share, such as `log_sum_dot(anchors, candidates)`; none by default.
    """
    positive = similarity(anchors, positives)
    own = similarity(anchors[:, None], negatives).logsumexp(1)
    log_sum = own if others is None else torch.logaddexp(own, others)
    return _contrast(positive, log_sum, negatives.shape[1], True, False)


def ensemble(
    losses: Sequence[Callable[[Tensor, Tensor], Tensor]], views: Sequence[Pair], weights: Sequence[float] | None = None
) -> Tensor:
    """Σ_m w_m mean L_m(z_m, z̃_m), Σ_m w_m = 1: one encoder, several ways to draw pairs, each with a loss of its own."""
    weights = [1.0] * len(losses) if weights is None else weights
    if not len(losses) == len(views) == len(weights) or not losses:
        counts = f"{len(losses)} losses, {len(views)} views and {len(weights)} weights"
        raise UserError(f"An ensemble has a loss, two views and a weight for each member, not {counts}.")
    if min(weights) < 0 or sum(weights) == 0:
        raise UserError("The weights of an ensemble are not negative, and at least one is above 0.")
    means = [loss(*pair).mean() for loss, pair in zip(losses, views, strict=True)]
    return torch.stack([w / sum(weights) * mean for w, mean in zip(weights, means, strict=True)]).sum()


def _own(anchors: Tensor, row: int | None) -> Tensor | None:
    """The rows of the candidates at which the anchors stand, beginning at `row`."""
    return None if row is None else row + torch.arange(len(anchors), device=anchors.device)


def _contrast(positive: Tensor, log_sum: Tensor, n: int, with_positive: bool, log_mean: bool) -> Tensor:
    """-s⁺ + log-sum over n negatives, with or without the positive, as a sum or a mean."""
    if with_positive:
        log_sum = torch.logaddexp(positive, log_sum)
    return log_sum - positive - (log(n + with_positive) if log_mean else 0.0)


def _positive(tau: Temperature) -> Temperature:
    if isinstance(tau, float | int) and not tau > 0:
        raise UserError(f"A temperature τ is above 0, not {tau:g}.")
    return tau


def _at_least_one(p: float) -> float:
    if not 1 <= p < inf:
        raise UserError(f"The power p of an L_δ loss is a number of at least 1, not {p:g}.")
    return p
