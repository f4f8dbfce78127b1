"""Negatives from all ranks: gathering codes with their gradients.

Every rank averages the loss over its own anchors, with the codes of all ranks as negatives:

    z, z̃ = f(x), f(x̃)
    delta_contrastive(z, z̃, gather(z)).mean()
    two_view_info_nce(z, z̃, (gather(z), gather(z̃)), first_row=first_row(z)).mean()

DistributedDataParallel then averages the parameters' gradients over ranks: exactly the gradient of the mean over the
joint batch. If nothing is distributed, `gather` returns what it is given.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def is_distributed() -> bool:
    """Return whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gather(codes: Tensor) -> Tensor:
    """Return the codes of all ranks, with gradients: a rank's codes receive those from the losses of all ranks.

    Args:
        codes: Codes of this rank (B, d), with the same B on every rank.

    Returns:
        Codes of all ranks (ranks · B, d), in order of ranks.

    Example:
        >>> import torch
        >>> from ident3d.losses import gather
        >>> gather(torch.zeros(8, 5)).shape  # outside torch.distributed
        torch.Size([8, 5])
    """
    if not is_distributed():
        return codes
    result: Tensor = _Gather.apply(codes)  # type: ignore[no-untyped-call]
    return result


def first_row(codes: Tensor) -> int:
    """Return the row at which this rank's codes begin in what `gather` returns.

    Args:
        codes: Codes of this rank (B, d), with the same B on every rank.

    Returns:
        rank · B, or 0 if nothing is distributed.

    Example:
        >>> import torch
        >>> from ident3d.losses import first_row
        >>> first_row(torch.zeros(8, 5))
        0
    """
    return dist.get_rank() * len(codes) if is_distributed() else 0


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace gradients by their mean over ranks, for a loss's parameters, unknown to DistributedDataParallel."""
    if not is_distributed():
        return
    for parameter in parameters:
        if parameter.requires_grad:
            # A rank without a gradient still takes part, or the others would wait for it.
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(gradient)
            parameter.grad = gradient / dist.get_world_size()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, codes: Tensor) -> Tensor:
        parts = [torch.empty_like(codes) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, codes.contiguous())
        ctx.batch = len(codes)
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # A rank's codes are negatives in the losses of all ranks, so their gradients come from all of them.
        total = gradient.clone()
        dist.all_reduce(total)
        first = dist.get_rank() * ctx.batch
        return total[first : first + ctx.batch]
