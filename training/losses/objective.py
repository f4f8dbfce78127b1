"""What is minimised: a loss by name or import path, with the codes of all ranks as negatives."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.loop.dtype import wide
from ident3d.training.loop.own_code import by_path, own_code
from ident3d.training.losses.aninfonce import Precision, an_info_nce
from ident3d.training.losses.contrastive import alignment_uniformity, delta_contrastive, info_nce, two_view_info_nce
from ident3d.training.losses.gather import first_row, gather
from ident3d.training.losses.inputs import own_rows
from ident3d.training.losses.log_sum import log_sum_dot, log_sum_power
from ident3d.training.losses.regression import mean_squared_error
from ident3d.training.losses.similarities import inner, minus_power, minus_quadratic

PairLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def make_loss(name: str, *, p: float = 2.0, tau: float = 1.0, alpha: float = 0.5, negatives: str = "batch") -> PairLoss:
    """Return the loss of that name without parameters of its own: codes z, z̃ (B, d) → one value per anchor.

    `negatives` is "batch" (all anchors, the anchor itself among them) or "others" (all but itself).
    """

    def own_row(z: Tensor) -> int | None:
        return first_row(z) if negatives == "others" else None

    losses: dict[str, PairLoss] = {
        "infonce": lambda z, z_tilde: info_nce(z, z_tilde, gather(z), tau=tau, first_row=own_row(z)),
        "delta": lambda z, z_tilde: delta_contrastive(z, z_tilde, gather(z), p=p, tau=tau, first_row=own_row(z)),
        "au": lambda z, z_tilde: alignment_uniformity(z, z_tilde, gather(z), alpha=alpha, p=p),
        "simclr": lambda z, z_tilde: two_view_info_nce(
            z, z_tilde, (gather(z), gather(z_tilde)), first_row=first_row(z), tau=tau
        ),
    }
    return losses[name]


class Objective(nn.Module):
    """Codes of all views, one after another (views · B, d), and their latents → the mean loss.

    With the loss aninfonce it learns `precision`, the diagonal Λ̂ (dim,); with a user's own it holds that as `own`.
    """

    def __init__(
        self, loss: str, dim: int, *, space: str, p: float | None, tau: float, alpha: float, negatives: str, seed: int
    ) -> None:
        super().__init__()
        self.name, self.on_sphere = loss, space == "sphere"
        self.p, self.tau, self.negatives = p or 2.0, tau, negatives
        self.precision: nn.Module | None = None
        self.own: Callable[..., Any] | None = None
        self.pair_loss: PairLoss | None = None
        if ":" in loss:
            self.own = own_loss(loss)
        elif loss == "aninfonce":
            # A generator of its own: Λ̂ starts the same whatever the encoder has drawn.
            self.precision = Precision(dim, generator=torch.Generator().manual_seed(seed))
        elif loss != "mse":
            self.pair_loss = make_loss(loss, p=p or 2.0, tau=tau, alpha=alpha, negatives=negatives)

    def forward(self, codes: Tensor, latents: Sequence[Tensor]) -> Tensor:
        """Return the mean over anchors. Supervised training has one view, and compares codes with latents."""
        if len(latents) == 1:
            found = mean_squared_error(codes, latents[0]) if self.own is None else self.of_own(codes, codes, latents[0])
            return found.mean()
        z, z_tilde = codes.chunk(2)
        if self.pair_loss is not None:
            return self.pair_loss(z, z_tilde).mean()
        if self.precision is None:
            return self.of_own(codes, z, z_tilde, gather(z)).mean()
        joint, row = (gather(z), gather(z_tilde)), first_row(z)
        return an_info_nce(z, z_tilde, self.precision(), joint, first_row=row, normalize=self.on_sphere).mean()

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Return s(a, b) of aninfonce, infonce or delta, for negatives of each anchor's own."""
        if self.precision is not None:
            return minus_quadratic(a, b, self.precision())
        return inner(a, b) / self.tau if self.name == "infonce" else minus_power(a, b, self.p) / self.tau

    def log_sum(self, z: Tensor) -> Tensor:
        """Return log Σ_j exp s(z_i, z_j) (B,) over the negatives that all anchors share, with the same s."""
        joint = gather(z)
        # AnInfoNCE never has an anchor among its own negatives.
        itself = own_rows(z, joint, first_row(z)) if self.negatives == "others" or self.precision is not None else None
        if self.name == "infonce":
            return log_sum_dot(z / self.tau, joint, skip=itself)
        p = 2.0 if self.precision is not None else self.p
        scale = self.tau ** (-1 / p) if self.precision is None else (self.precision() / 2).sqrt()
        return log_sum_power(wide(z) * scale, wide(joint) * scale, p, skip=itself)

    def diagonals(self) -> list[Tensor]:
        """Return Λ̂ (d,), in a list that is empty if the loss has none."""
        return [] if self.precision is None else [self.precision()]

    def of_own(self, codes: Tensor, *given: Tensor) -> Tensor:
        """Return the value of a user's own loss, which must depend on the codes."""
        assert self.own is not None
        with own_code("loss", self.name):
            value = self.own(*given)
        if not isinstance(value, Tensor) or value.ndim > 1:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UserError(f"The loss {self.name!r} gives one value per anchor, not {shape}.")
        # Such a loss would train nothing, in silence.
        if codes.requires_grad and not value.requires_grad and torch.is_grad_enabled():
            raise UserError(f"The loss {self.name!r} has no gradient: its value does not depend on the codes.")
        return value


def of_pair(member: nn.Module, z: Tensor, z_tilde: Tensor) -> Tensor:
    """Return a member's loss of codes (B, d) and (B, d), a scalar."""
    value: Tensor = member(torch.cat([z, z_tilde]), ())
    return value


def own_loss(path: str) -> Callable[..., Any]:
    """Return a user's own loss: a function (anchors, positives, negatives) → one value per anchor, or such a module.

    In supervised training it is called with (codes, latents).
    """
    found = by_path("loss", path)
    if isinstance(found, type) and issubclass(found, nn.Module):
        with own_code("loss", path):
            found = found()
    elif isinstance(found, nn.Module):
        # What it learns is this run's alone.
        found = deepcopy(found)
    if not callable(found):
        raise UserError(f"The loss {path!r} is neither a function nor an nn.Module.")
    return found
