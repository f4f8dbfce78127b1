"""Negatives from all ranks: gathering codes with their gradients.

Every rank averages the loss over its own anchors, with everybody's codes as candidates:

    z, z̃ = f(x), f(x̃)
    delta_contrastive(z, z̃, gather(z)).mean()
    two_view_info_nce(z, z̃, (gather(z), gather(z̃)), first=first_row(z)).mean()

DistributedDataParallel then averages the parameters' gradients over ranks: exactly the gradient of the mean over the
joint batch. Where nothing is distributed, `gather` gives back what it is given.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def distributed() -> bool:
    """Whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gather(codes: Tensor) -> Tensor:
    """(B, d) of this rank → (ranks · B, d) of all, in order of ranks; B is the same on every rank.

    A rank's codes receive gradients from the losses of all ranks.
    """
    if not distributed():
        return codes
    result: Tensor = _Gather.apply(codes)  # type: ignore[no-untyped-call]
    return result


def first_row(codes: Tensor) -> int:
    """Where this rank's rows begin in what `gather` returns."""
    return dist.get_rank() * len(codes) if distributed() else 0


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """The mean of the gradients over ranks, for parameters of a loss that DistributedDataParallel does not know of."""
    if not distributed():
        return
    for parameter in parameters:
        if parameter.requires_grad:
            # a rank without a gradient still takes part, or the others would wait for it
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
        total = gradient.clone()
        dist.all_reduce(total)
        first = dist.get_rank() * ctx.batch
        return total[first : first + ctx.batch]
