"""log Σ_j exp s(a_i, b_j) over all candidates b_j, fused: neither a B×B×d nor a B×B tensor outlives its rows.

Every contrastive loss compares each of B anchors with each of N candidates. Here the similarities are made for a few
anchors at a time, summed, and thrown away; the backward pass makes them again. Memory grows with (B + N)·d instead of
B·N·d, and what is being worked on stays in the processor's cache (`ident3d bench losses`).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ident3d.training.loop.precision import wide

# similarities held at once: 1 MB of float32 for a CPU's cache; enough to fill a GPU
CPU_BLOCK, GPU_BLOCK = 2**18, 2**24


def log_sum_dot(a: Tensor, b: Tensor, skip: Tensor | None = None) -> Tensor:
    """log Σ_j exp ⟨a_i, b_j⟩ for a (B, d), b (N, d) → (B,). `skip` (B,) names one candidate that row i leaves out."""
    return _log_sum(a, b, None, False, skip)


def log_sum_power(a: Tensor, b: Tensor, p: float, *, root: bool = False, skip: Tensor | None = None) -> Tensor:
    """log Σ_j exp -Σ_k |a_ik - b_jk|^p for a (B, d), b (N, d), p ≥ 1 → (B,); `root` takes the p-th root of the Σ_k.

    `skip` (B,) names one candidate that row i leaves out. Gradients at distance zero are zero.
    """
    return _log_sum(a, b, float(p), root, skip)


def _log_sum(a: Tensor, b: Tensor, p: float | None, root: bool, skip: Tensor | None) -> Tensor:
    a, b = wide(a), wide(b)
    if p == 2 and not root:  # distances do not depend on the origin; near the points, less is cancelled
        origin = b.detach().mean(0)
        a, b = a - origin, b - origin
    result: Tensor = _LogSum.apply(a, b, p, root, skip)  # type: ignore[no-untyped-call]
    return result


class _LogSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, p: float | None, root: bool, skip: Tensor | None) -> Tensor:
        result = a.new_empty(len(a))
        with torch.autocast(a.device.type, enabled=False):
            for rows in _blocks(a, b):
                result[rows] = _similarity(a, b, p, root, skip, rows)[0].logsumexp(1)
        ctx.save_for_backward(a, b, result)
        ctx.p, ctx.root, ctx.skip = p, root, skip
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, result = ctx.saved_tensors
        with torch.autocast(a.device.type, enabled=False):
            return *_gradients(a, b, ctx.p, ctx.root, ctx.skip, result, grad), None, None, None


def _gradients(
    a: Tensor, b: Tensor, p: float | None, root: bool, skip: Tensor | None, result: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients for a and b of Σ_i grad_i result_i: the similarities once more, block by block."""
    columns = b.T.contiguous()  # products with tall, thin matrices are several times faster along their columns
    grad_a, grad_columns = torch.empty_like(a), torch.zeros_like(columns)
    result = result.clamp_min(torch.finfo(a.dtype).min)  # a row without candidates sums to log 0, and pulls at nothing
    for rows in _blocks(a, b):
        similarity, power = _similarity(a, b, p, root, skip, rows)
        # w_ij = ∂L/∂s_ij: row i's gradient, shared out by the softmax of its similarities
        w = similarity.sub_(result[rows, None]).exp_().mul_(grad[rows, None])
        if p is None:
            grad_a[rows] = w @ columns.T
            grad_columns.addmm_(a[rows].T, w)
            continue
        if root:  # ∂Σ^(1/p)/∂Σ = Σ^(1/p-1) / p, and 0 where the distance is 0
            w = torch.where(power > 0, w * power.pow(1 / p - 1) / p, 0)
        if p == 2 and not root:  # a root's w is large near 0, where a product of matrices would cancel
            grad_a[rows] = 2 * (w @ columns.T - w.sum(1, keepdim=True) * a[rows])
            grad_columns.addmm_(a[rows].T, w, alpha=2).addcmul_(w.sum(0), columns, value=-2)
            continue
        for k, difference in _differences(a[rows], b):
            force = _slope(difference, p).mul_(w)
            grad_a[rows, k] = -force.sum(1)
            grad_columns[k] += force.sum(0)
    return grad_a, grad_columns.T.contiguous()


def _blocks(a: Tensor, b: Tensor) -> Iterator[slice]:
    """The rows of a in blocks whose similarities to all of b are worked on at once."""
    budget = CPU_BLOCK if a.device.type == "cpu" else GPU_BLOCK
    step = max(1, budget // max(1, len(b)))
    return (slice(first, first + step) for first in range(0, len(a), step))


def _similarity(
    a: Tensor, b: Tensor, p: float | None, root: bool, skip: Tensor | None, rows: slice
) -> tuple[Tensor, Tensor]:
    """s(a_i, b_j) for the given rows, and for p-distances Σ_k |a_ik - b_jk|^p as well (the same tensor if unused)."""
    if p is None:
        power = similarity = a[rows] @ b.T
    else:
        power = _squares(a[rows], b) if p == 2 and not root else _powers(a[rows], b, p)
        similarity = power.pow(1 / p).neg_() if root else power.neg_()
    if skip is not None:
        similarity.scatter_(1, skip[rows, None], -torch.inf)
    return similarity, power


def _squares(a: Tensor, b: Tensor) -> Tensor:
    """|a_i - b_j|² as a matrix product: |a_i|² - 2 ⟨a_i, b_j⟩ + |b_j|²."""
    squares = torch.addmm(b.square().sum(1), a, b.T, alpha=-2)
    return squares.add_(a.square().sum(1, keepdim=True))


def _powers(a: Tensor, b: Tensor, p: float) -> Tensor:
    """Σ_k |a_ik - b_jk|^p, one dimension after another."""
    total = a.new_zeros(len(a), len(b))
    for _, difference in _differences(a, b):
        size = difference.abs_()
        if p == 1:
            total += size
        elif p == 2:
            total.addcmul_(size, size)
        elif p == 3:
            total.addcmul_(size * size, size)
        else:
            total += size.pow_(p)
    return total


def _differences(a: Tensor, b: Tensor) -> Iterator[tuple[int, Tensor]]:
    """k and a_ik - b_jk, for each dimension k; the tensor is made once and may be overwritten by whoever gets it."""
    columns_a, columns_b = a.T.contiguous(), b.T.contiguous()
    difference = a.new_empty(len(a), len(b))
    for k in range(a.shape[1]):
        torch.sub(columns_a[k, :, None], columns_b[k], out=difference)
        yield k, difference


def _slope(difference: Tensor, p: float) -> Tensor:
    """∂|x|^p/∂x = p sign(x) |x|^(p-1), and 0 at 0 for p = 1 as well."""
    if p == 1:
        return difference.sign_()
    if p == 3:
        return difference.mul_(difference.abs().mul_(3))
    sign = difference.sign()
    return difference.abs_().pow_(p - 1).mul_(sign).mul_(p)
