"""Similarities of a sample and its partner: s(a, b) over the last dimension, for tensors that broadcast."""

from torch import Tensor

from ident3d.training.loop.dtype import wide
from ident3d.training.losses.inputs import check_shape


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Return ⟨a, b⟩.

    Args:
        a: Codes (..., d).
        b: Codes (..., d); the dimensions before the last one broadcast.

    Returns:
        Similarities (...).

    Example:
        >>> import torch
        >>> from ident3d.losses import inner
        >>> inner(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor([3., 8.])
    """
    return (wide(a) * wide(b)).sum(-1)


def minus_power(a: Tensor, b: Tensor, p: float) -> Tensor:
    """Return -Σ_k |a_k - b_k|^p, whose gradient at a = b is 0.

    Args:
        a: Codes (..., d).
        b: Codes (..., d); the dimensions before the last one broadcast.
        p: The power, at least 1.

    Returns:
        Similarities (...).

    Example:
        >>> import torch
        >>> from ident3d.losses import minus_power
        >>> minus_power(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 0.0], [0.0, 4.0]]), p=3)
        tensor([-16.,  -9.])
    """
    return -(wide(a) - wide(b)).abs().pow(p).sum(-1)


def minus_quadratic(a: Tensor, b: Tensor, precision: Tensor) -> Tensor:
    """Return -½ Σ_k λ_k (a_k - b_k)².

    Args:
        a: Codes (..., d).
        b: Codes (..., d); the dimensions before the last one broadcast.
        precision: The diagonal λ (d,) of Λ.

    Returns:
        Similarities (...).

    Example:
        >>> import torch
        >>> from ident3d.losses import minus_quadratic
        >>> minus_quadratic(torch.zeros(2), torch.tensor([1.0, 2.0]), torch.tensor([10.0, 0.5]))
        tensor(-6.)
    """
    check_shape("precision", precision, a.shape[-1])
    return -0.5 * ((wide(a) - wide(b)).square() * precision).sum(-1)
