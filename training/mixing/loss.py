"""What is minimised on mixed latents: the trainer's objectives, for several processes or with hard negatives."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize as unit

from ident3d.training.losses.aninfonce import an_info_nce
from ident3d.training.losses.contrastive import ensemble, hard_negatives
from ident3d.training.losses.objective import Objective, of_pair
from ident3d.training.mixing.settings import MixingSettings


class MixingLoss(nn.Module):
    """The mean loss over processes, each with its own Λ̂. Codes and latents come in the sampler's order."""

    def __init__(self, settings: MixingSettings) -> None:
        super().__init__()
        self.settings = s = settings
        self.members = nn.ModuleList(
            Objective(
                str(s.loss), s.dim, space=str(s.space), p=s.model_p, tau=s.tau, alpha=s.alpha,
                negatives=str(s.negatives), seed=s.seed,
            )
            for _ in range(max(1, len(s.lambdas)))
        )  # fmt: skip

    def forward(self, codes: Sequence[Tensor], latents: Sequence[Tensor]) -> Tensor:
        s = self.settings
        if s.supervised:
            value: Tensor = self.members[0](codes[0], latents)
            return value
        # Every anchor has hard negatives of its own, one after another in the sampler's order. Without their codes it
        # is the loss of before they come.
        if s.hard and len(codes) > 2:
            z, z_tilde, negatives = codes
            own = negatives.reshape(len(z), s.hard_count, -1)
            if s.hard_beside:
                return self.beside_shared(z, z_tilde, own)
            return hard_negatives(z, z_tilde, own, self.first.similarity).mean()
        # The sampler gives z and z̃ of each process in turn.
        pairs = list(zip(codes[::2], codes[1::2], strict=True))
        losses = [partial(of_pair, member) for member in self.members]
        return ensemble(losses, pairs)

    def beside_shared(self, z: Tensor, z_tilde: Tensor, own: Tensor) -> Tensor:
        """Return the mean loss of anchors whose hard negatives (B, M, d) stand next to those that all share.

        AnInfoNCE's second views are anchors as well, and keep their ordinary negatives.
        """
        first = self.first
        if first.precision is None:
            return hard_negatives(z, z_tilde, own, first.similarity, first.log_sum(z)).mean()
        ordinary = an_info_nce(z, z_tilde, first.precision(), normalize=first.on_sphere)
        if first.on_sphere:
            z, z_tilde, own = (unit(codes, dim=-1) for codes in (z, z_tilde, own))
        # Each value is a log-sum less s(z, z̃), and so is the part of the hard negatives.
        apart = first.similarity(z[:, None], own).logsumexp(1) - first.similarity(z, z_tilde)
        return torch.cat([torch.logaddexp(ordinary[: len(z)], apart), ordinary[len(z) :]]).mean()

    @property
    def first(self) -> Objective:
        member = self.members[0]
        assert isinstance(member, Objective)
        return member

    def diagonals(self) -> list[Tensor]:
        """Return Λ̂ (d,) of every process; an empty list if the loss has none."""
        return [diagonal for member in self.members if isinstance(member, Objective) for diagonal in member.diagonals()]
