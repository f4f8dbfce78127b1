"""What is minimised on mixed latents: the trainer's objectives, for several processes or with hard negatives."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

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
        # Every anchor has hard negatives of its own, one after another in the sampler's order.
        if s.hard:
            z, z_tilde, negatives = codes
            own = negatives.reshape(len(z), s.hard_count, -1)
            return hard_negatives(z, z_tilde, own, self.first.similarity).mean()
        # The sampler gives z and z̃ of each process in turn.
        pairs = list(zip(codes[::2], codes[1::2], strict=True))
        losses = [partial(of_pair, member) for member in self.members]
        return ensemble(losses, pairs)

    @property
    def first(self) -> Objective:
        member = self.members[0]
        assert isinstance(member, Objective)
        return member

    def diagonals(self) -> list[Tensor]:
        """Return Λ̂ (d,) of every process; an empty list if the loss has none."""
        return [diagonal for member in self.members if isinstance(member, Objective) for diagonal in member.diagonals()]
