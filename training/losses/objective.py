"""What is minimised: a loss by name or import path, with the codes of all ranks as negatives.

Views are two, or three: a hard negative of each anchor, or a positive of either of two conditionals.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize as unit

from ident3d.errors import UserError
from ident3d.training.loop.dtype import wide
from ident3d.training.losses.alignment import alignment_uniformity
from ident3d.training.losses.aninfonce import (
    PairRegression,
    Precision,
    an_info_nce,
    decorrelation,
    permutation_contrast,
    tri_factor_nce,
)
from ident3d.training.losses.choice import PERMUTATION, TRICL
from ident3d.training.losses.contrastive import (
    delta_contrastive,
    ensemble,
    hard_negatives,
    info_nce,
    two_view_info_nce,
)
from ident3d.training.losses.gather import first_row, gather
from ident3d.training.losses.inputs import own_rows
from ident3d.training.losses.log_sum import log_sum_dot, log_sum_power
from ident3d.training.losses.regression import mean_squared_error
from ident3d.training.losses.similarities import inner, minus_power, minus_quadratic
from ident3d.training.own.own_code import by_path, own_code

PairLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def make_loss(
    name: str,
    *,
    p: float = 2.0,
    tau: float = 1.0,
    alpha: float = 0.5,
    drop_last: bool = False,
    negatives: str = "batch",
) -> PairLoss:
    """Return the loss of that name without parameters of its own: codes z, z̃ (B, d) → one value per anchor.

    `negatives` is "batch" (all anchors, the anchor itself among them) or "others" (all but itself).
    """

    def own_row(z: Tensor) -> int | None:
        return first_row(z) if negatives == "others" else None

    losses: dict[str, PairLoss] = {
        "infonce": lambda z, z_tilde: info_nce(z, z_tilde, gather(z), tau=tau, first_row=own_row(z)),
        "delta": lambda z, z_tilde: delta_contrastive(z, z_tilde, gather(z), p=p, tau=tau, first_row=own_row(z)),
        "au": lambda z, z_tilde: alignment_uniformity(z, z_tilde, gather(z), alpha=alpha, p=p, drop_last=drop_last),
        "simclr": lambda z, z_tilde: two_view_info_nce(
            z, z_tilde, (gather(z), gather(z_tilde)), first_row=first_row(z), tau=tau
        ),
    }
    return losses[name]


class Objective(nn.Module):
    """Codes of all views, one after another (views · B, d), and their latents → the mean loss.

    With the losses aninfonce and tricl it learns `precision`, the diagonal Λ̂ (dim,), and with pcl `regression`; a
    user's own it holds as `own`.
    """

    def __init__(
        self,
        loss: str,
        dim: int,
        *,
        space: str,
        p: float | None,
        tau: float,
        alpha: float,
        negatives: str,
        seed: int,
        drop_last: bool = False,
    ) -> None:
        super().__init__()
        self.name, self.on_sphere = loss, space == "sphere"
        self.p, self.tau, self.negatives = p or 2.0, tau, negatives
        self.precision: nn.Module | None = None
        self.regression: nn.Module | None = None
        self.own: Callable[..., Any] | None = None
        self.pair_loss: PairLoss | None = None
        if ":" in loss:
            self.own = own_loss(loss)
        elif loss == "aninfonce" or loss in TRICL:
            # A generator of its own: Λ̂ starts the same whatever the encoder has drawn.
            self.precision = Precision(dim, generator=torch.Generator().manual_seed(seed))
        elif loss == PERMUTATION:
            self.regression = PairRegression(dim)
        elif loss != "mse":
            self.pair_loss = make_loss(loss, p=p or 2.0, tau=tau, alpha=alpha, drop_last=drop_last, negatives=negatives)

    def forward(self, codes: Tensor, latents: Sequence[Tensor]) -> Tensor:
        """Return the mean over anchors. Supervised training has one view, and compares codes with latents."""
        if len(latents) == 1:
            found = mean_squared_error(codes, latents[0]) if self.own is None else self.of_own(codes, codes, latents[0])
            return found.mean()
        z, z_tilde = codes.chunk(2)
        if self.pair_loss is not None:
            return self.pair_loss(z, z_tilde).mean()
        if self.regression is not None:
            # Among a rank's own anchors, by the generator that each step seeds anew.
            return permutation_contrast(z, z_tilde, self.regression, int(torch.randint(1, max(2, len(z)), ()))).mean()
        if self.precision is None:
            return self.of_own(codes, z, z_tilde, gather(z)).mean()
        if self.name in TRICL:
            released = self.name == TRICL[1]
            contrast = tri_factor_nce(z, z_tilde, self.precision(), tau=self.tau, released=released).mean()
            return contrast + decorrelation(z, z_tilde, stretched=not released)
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
        if not isinstance(value, Tensor) or value.shape != given[0].shape[:1]:
            shape = f"the shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            hint = "; leave out its mean" if shape.endswith("()") else ""
            raise UserError(
                f"The loss {self.name!r} gives one value per anchor, ({len(given[0])},), not {shape}{hint}."
            )
        # Such a loss would train nothing, in silence.
        if codes.requires_grad and not value.requires_grad and torch.is_grad_enabled():
            raise UserError(f"The loss {self.name!r} has no gradient: its value does not depend on the codes.")
        return value


def of_pair(member: nn.Module, z: Tensor, z_tilde: Tensor) -> Tensor:
    """Return a member's loss of codes (B, d) and (B, d), a scalar."""
    value: Tensor = member(torch.cat([z, z_tilde]), ())
    return value


class HardNegative(nn.Module):
    """Codes of anchors, positives and hard negatives, one after another (3B, d) → the mean loss.

    -s(z, z̃) + log(exp s(z, z̃) + exp s(z, z⁻) + Σ_j exp s(z, z_j)): each anchor has its hard negative next to the
    negatives that all share. Of hard negatives alone the best Λ̂ is Λ⁺ - Λ⁻; the shared ones draw it towards Λ⁺.
    """

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, codes: Tensor, latents: Sequence[Tensor]) -> Tensor:
        objective = self.objective
        # AnInfoNCE compares directions if the codes live on a sphere, whatever its radius.
        codes = unit(codes, dim=1) if objective.precision is not None and objective.on_sphere else codes
        z, z_tilde, hard = codes.chunk(3)
        return hard_negatives(z, z_tilde, hard[:, None], objective.similarity, objective.log_sum(z)).mean()

    def diagonals(self) -> list[Tensor]:
        return self.objective.diagonals()


class TwoConditionals(nn.Module):
    """Codes of anchors and of a positive from either conditional (3B, d) → the mean of both losses, each with its Λ̂."""

    def __init__(self, first: Objective, second: Objective) -> None:
        super().__init__()
        self.members = nn.ModuleList([first, second])

    def forward(self, codes: Tensor, latents: Sequence[Tensor]) -> Tensor:
        z, *positives = codes.chunk(3)
        losses = [partial(of_pair, member) for member in self.members]
        return ensemble(losses, [(z, z_tilde) for z_tilde in positives])

    def diagonals(self) -> list[Tensor]:
        return [diagonal for member in self.members if isinstance(member, Objective) for diagonal in member.diagonals()]


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
