"""log Σ_j exp s(a_i, b_j) over all negatives b_j, fused: neither a B×N×d nor a B×N tensor outlives its rows.

Every contrastive loss compares each of B anchors with each of N negatives. Here the similarities are made for a few
anchors at a time, summed, and thrown away; the backward pass makes them again. Memory grows with (B + N)·d instead of
B·N·d, and what is being worked on stays in the processor's cache (`ident3d bench losses`).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ident3d.training.loop.dtype import wide
from ident3d.training.losses.inputs import check_shape

# Similarities held at once: 1 MB of float32 stays in a CPU's cache, 64 MB are enough work for a GPU.
CPU_BLOCK, GPU_BLOCK = 2**18, 2**24


def log_sum_dot(a: Tensor, b: Tensor, skip: Tensor | None = None) -> Tensor:
    """Return log Σ_j exp ⟨a_i, b_j⟩, in memory that grows with B + N instead of B·N.

    Args:
        a: Codes (B, d).
        b: Codes (N, d).
        skip: One row of b (B,) for each row of a, which that row leaves out.

    Returns:
        One value per row of a (B,).

    Example:
        >>> import torch
        >>> from ident3d.losses import log_sum_dot
        >>> log_sum_dot(torch.eye(2), torch.zeros(3, 2))
        tensor([1.0986, 1.0986])
    """
    return _log_sum(a, b, None, skip)


def log_sum_power(a: Tensor, b: Tensor, p: float, *, skip: Tensor | None = None) -> Tensor:
    """Return log Σ_j exp -Σ_k |a_ik - b_jk|^p, in memory that grows with B + N instead of B·N.

    Args:
        a: Codes (B, d).
        b: Codes (N, d).
        p: The power, at least 1; gradients at distance zero are zero.
        skip: One row of b (B,) for each row of a, which that row leaves out.

    Returns:
        One value per row of a (B,).

    Example:
        >>> import torch
        >>> from ident3d.losses import log_sum_power
        >>> log_sum_power(torch.zeros(1, 2), torch.tensor([[1.0, 1.0], [0.0, 0.0]]), p=2)
        tensor([0.1269])
    """
    return _log_sum(a, b, float(p), skip)


def _log_sum(a: Tensor, b: Tensor, p: float | None, skip: Tensor | None) -> Tensor:
    check_shape("a", a, "B", "d")
    check_shape("b", b, "N", a.shape[1])
    if skip is not None:
        check_shape("skip", skip, len(a))
    a, b = wide(a), wide(b)
    # Squared distances are made of products that cancel. They do not depend on the origin: near the points, the
    # products are small and less of them cancels.
    if p == 2:
        origin = b.detach().mean(0)
        a, b = a - origin, b - origin
    result: Tensor = _LogSum.apply(a, b, p, skip)  # type: ignore[no-untyped-call]
    return result


class _LogSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, p: float | None, skip: Tensor | None) -> Tensor:
        result = a.new_empty(len(a))
        # Inside autocast the products would be made in 16 bits, in the backward pass as well.
        with torch.autocast(a.device.type, enabled=False):
            for rows in _blocks(a, b):
                result[rows] = _similarity(a, b, p, skip, rows).logsumexp(1)
        ctx.save_for_backward(a, b, result)
        ctx.p, ctx.skip = p, skip
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, result = ctx.saved_tensors
        with torch.autocast(a.device.type, enabled=False):
            return *_gradients(a, b, ctx.p, ctx.skip, result, grad), None, None


def _gradients(
    a: Tensor, b: Tensor, p: float | None, skip: Tensor | None, result: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients for a and b of Σ_i grad_i result_i: the similarities once more, block by block."""
    # Products with tall, thin matrices are several times faster along their columns.
    columns = b.T.contiguous()
    grad_a, grad_columns = torch.empty_like(a), torch.zeros_like(columns)
    # A row without negatives sums to log 0 = -∞. Clamped, its weights are 0 instead of NaN, and it pulls at nothing.
    result = result.clamp_min(torch.finfo(a.dtype).min)
    for rows in _blocks(a, b):
        similarity = _similarity(a, b, p, skip, rows)
        # w_ij = ∂L/∂s_ij: row i's gradient, shared out by the softmax of its similarities.
        w = similarity.sub_(result[rows, None]).exp_().mul_(grad[rows, None])
        if p is None:
            grad_a[rows] = w @ columns.T
            grad_columns.addmm_(a[rows].T, w)
            continue
        if p == 2:
            grad_a[rows] = 2 * (w @ columns.T - w.sum(1, keepdim=True) * a[rows])
            grad_columns.addmm_(a[rows].T, w, alpha=2).addcmul_(w.sum(0), columns, value=-2)
            continue
        for k, difference in _differences(a[rows], b):
            force = _slope(difference, p).mul_(w)
            grad_a[rows, k] = -force.sum(1)
            grad_columns[k] += force.sum(0)
    return grad_a, grad_columns.T.contiguous()


def _blocks(a: Tensor, b: Tensor) -> Iterator[slice]:
    """Return the rows of a in blocks whose similarities to all of b are worked on at once."""
    budget = CPU_BLOCK if a.device.type == "cpu" else GPU_BLOCK
    step = max(1, budget // max(1, len(b)))
    return (slice(first, first + step) for first in range(0, len(a), step))


def _similarity(a: Tensor, b: Tensor, p: float | None, skip: Tensor | None, rows: slice) -> Tensor:
    """Return s(a_i, b_j) for the given rows of a and all of b."""
    if p is None:
        similarity = a[rows] @ b.T
    elif p == 2:
        similarity = _squares(a[rows], b).neg_()
    else:
        similarity = _powers(a[rows], b, p).neg_()
    if skip is not None:
        similarity.scatter_(1, skip[rows, None], -torch.inf)
    return similarity


def _squares(a: Tensor, b: Tensor) -> Tensor:
    """Return |a_i - b_j|² as a matrix product: |a_i|² - 2 ⟨a_i, b_j⟩ + |b_j|²."""
    squares = torch.addmm(b.square().sum(1), a, b.T, alpha=-2)
    return squares.add_(a.square().sum(1, keepdim=True))


def _powers(a: Tensor, b: Tensor, p: float) -> Tensor:
    """Return Σ_k |a_ik - b_jk|^p, one dimension after another."""
    # Multiplying is several times faster than a power, so the usual p are written out.
    total = a.new_zeros(len(a), len(b))
    for _, difference in _differences(a, b):
        size = difference.abs_()
        if p == 1:
            total += size
        elif p == 3:
            total.addcmul_(size * size, size)
        else:
            total += size.pow_(p)
    return total


def _differences(a: Tensor, b: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield k and a_ik - b_jk, for each dimension k; one tensor serves all k and may be overwritten."""
    columns_a, columns_b = a.T.contiguous(), b.T.contiguous()
    difference = a.new_empty(len(a), len(b))
    for k in range(a.shape[1]):
        torch.sub(columns_a[k, :, None], columns_b[k], out=difference)
        yield k, difference


def _slope(difference: Tensor, p: float) -> Tensor:
    """Return ∂|x|^p/∂x = p sign(x) |x|^(p-1), and 0 at 0 for p = 1 as well."""
    if p == 1:
        return difference.sign_()
    if p == 3:
        return difference.mul_(difference.abs().mul_(3))
    sign = difference.sign()
    return difference.abs_().pow_(p - 1).mul_(sign).mul_(p)
