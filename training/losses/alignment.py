"""Alignment and uniformity: pairs close together, codes spread out (Wang and Isola 2020), with any power."""

from math import log

from torch import Tensor

from ident3d.errors import UserError
from ident3d.training.losses.inputs import check_codes, check_power
from ident3d.training.losses.log_sum import log_sum_power
from ident3d.training.losses.similarities import minus_power


def alignment(anchors: Tensor, positives: Tensor, *, p: float = 2.0) -> Tensor:
    """Return Σ_k |z_k - z̃_k|^p: how far apart the codes of a pair are.

    Args:
        anchors: Codes z (B, d).
        positives: Codes z̃ (B, d).
        p: The power, at least 1.

    Returns:
        One value per anchor (B,).

    Example:
        >>> import torch
        >>> from ident3d.losses import alignment
        >>> alignment(torch.tensor([[0.0, 1.0]]), torch.tensor([[3.0, -1.0]]))
        tensor([13.])
    """
    check_codes(anchors, positives)
    return -minus_power(anchors, positives, check_power(p))


def uniformity(anchors: Tensor, negatives: Tensor | None = None, *, p: float = 2.0) -> Tensor:
    """Return log (1/N) Σ_j exp -Σ_k |z_k - z_jk⁻|^p: how crowded the place of an anchor's code is.

    Args:
        anchors: Codes z (B, d).
        negatives: Codes z⁻ (N, d); by default the anchors.
        p: The power, at least 1.

    Returns:
        One value per anchor (B,); 0 if all codes are equal, lower if they are spread out.

    Example:
        >>> import torch
        >>> from ident3d.losses import uniformity
        >>> uniformity(torch.tensor([[0.0], [0.0], [9.0]]))
        tensor([-0.4055, -0.4055, -1.0986])
    """
    check_codes(anchors, None, negatives)
    negatives = anchors if negatives is None else negatives
    return log_sum_power(anchors, negatives, check_power(p)) - log(len(negatives))


def alignment_uniformity(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None = None,
    *,
    alpha: float = 0.5,
    p: float = 2.0,
    drop_last: bool = False,
) -> Tensor:
    """Return L_AU(α, p): (1-α) alignment(z, z̃) + α uniformity(z, z⁻).

    The public code averages over anchors inside the logarithm and over negatives outside: the same if the negatives
    are the anchors, else `uniformity(negatives, anchors)`. By a slice [0:-1] it leaves the last code out of both terms,
    so that nothing trains it; `drop_last` does the same. Whether the published rows were made so is not known.

    Args:
        anchors: Codes z (B, d).
        positives: Codes z̃ (B, d); row i is the positive of anchor i.
        negatives: Codes z⁻ (N, d); by default the anchors.
        alpha: The share α of uniformity, between 0 and 1.
        p: The power of both terms, at least 1.
        drop_last: Leave the last code out, as the public code does.

    Returns:
        One value per anchor (B,).

    Reference: Wang and Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on
    the Hypersphere", ICML 2020.

    Example:
        >>> import torch
        >>> from ident3d.losses import alignment_uniformity
        >>> z = torch.tensor([[0.0], [2.0]])
        >>> alignment_uniformity(z, z + 0.5, alpha=0.25)
        tensor([0.0188, 0.0188])
    """
    if not 0 <= alpha <= 1:
        raise UserError(f"alpha shares out alignment and uniformity; it lies between 0 and 1, not at {alpha:g}.")
    if drop_last:
        check_codes(anchors, positives, negatives)
        anchors, positives = anchors[:, :-1], positives[:, :-1]
        negatives = None if negatives is None else negatives[:, :-1]
    return (1 - alpha) * alignment(anchors, positives, p=p) + alpha * uniformity(anchors, negatives, p=p)
