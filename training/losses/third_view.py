"""Losses of three views: a hard negative of each anchor, or a positive of either of two conditionals."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn.functional import normalize as unit

from ident3d.training.losses.contrastive import ensemble, hard_negatives
from ident3d.training.losses.objective import Objective, of_pair


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
