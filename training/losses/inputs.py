"""What a loss accepts: tensors with one row per sample, whose shapes fit as they are."""

from math import inf

import torch
from torch import Tensor

from ident3d.errors import UserError

Pair = tuple[Tensor, Tensor]


def check_shape(name: str, given: object, *shape: int | str) -> None:
    """Raise a UserError unless `given` is a tensor of this shape, in which a letter stands for any length."""
    if not isinstance(given, Tensor):
        raise UserError(f"{name} must be a torch tensor, not of the type {type(given).__name__}; see torch.as_tensor.")
    fits = given.ndim == len(shape) and all(
        isinstance(wanted, str) or wanted == length for wanted, length in zip(shape, given.shape, strict=True)
    )
    if not fits:
        raise UserError(f"{name} must have the shape ({', '.join(map(str, shape))}), not {tuple(given.shape)}.")


def check_codes(anchors: Tensor, positives: Tensor | None = None, negatives: Tensor | None = None) -> None:
    """Raise a UserError unless anchors and positives are (B, d), and negatives (N, d)."""
    # PyTorch would broadcast a single row or column in silence, and the loss would compare the wrong things.
    check_shape("anchors", anchors, "B", "d")
    if positives is not None:
        check_shape("positives", positives, *anchors.shape)
    if negatives is not None:
        check_shape("negatives", negatives, "N", anchors.shape[1])


def two_views(anchors: Tensor, negatives: Pair) -> Pair:
    """Return both views of a larger batch. Raise UserError unless they are of one shape (N, d)."""
    first, second = negatives
    check_codes(anchors, None, first)
    check_shape("negatives of the second view", second, *first.shape)
    return first, second


def own_rows(anchors: Tensor, negatives: Tensor, first_row: int) -> Tensor:
    """Return the rows of the negatives at which the anchors stand, from `first_row` on."""
    if not 0 <= first_row <= len(negatives) - len(anchors):
        raise UserError(
            f"{len(anchors)} anchors that begin at first_row={first_row} do not fit into {len(negatives)} negatives."
        )
    return first_row + torch.arange(len(anchors), device=anchors.device)


def check_power(p: float) -> float:
    """Return the power p of a loss; raise a UserError unless it is a number of at least 1."""
    if not 1 <= p < inf:
        raise UserError(f"The power p of a loss is a number of at least 1, not {p:g}.")
    return p
