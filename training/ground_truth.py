"""What a loss comes to at f = g⁻¹: its global minimum, estimated from the latents themselves, without an encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.objective import Objective
from ident3d.training.sampling import sampler
from ident3d.training.steps import rate_factor, seed_of, set_rates
from ident3d.training.synthetic import Synthetic
from ident3d.training.theory_loss import TheoryLoss

STEPS, RATE, BATCHES = 300, 5e-2, 20
FITTED, SCORED = 1, 2  # which of a seed's streams of draws


@dataclass(frozen=True)
class Minimum:
    """The mean loss of several batches at h = c z and its standard error, the best scale c, and the best Λ̂.

    `at_lambda` is the loss with Λ̂ = Λ (Λ⁺ - Λ⁻ with hard negatives) instead of the best Λ̂, where there is one.
    """

    loss: float
    error: float
    scale: float
    precision: list[list[float]]
    at_lambda: float | None


class Positive(nn.Module):
    """Positive numbers exp(l) that start at given values."""

    def __init__(self, start: Sequence[float]) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(start).log())

    def forward(self) -> Tensor:
        return self.log.exp()


def global_minimum(s: Synthetic, steps: int = STEPS) -> Minimum:
    """The loss at f = g⁻¹ with the best scale c and the best Λ̂, by Adam on fresh batches of completed settings.

    The batch counts: every anchor is among its own candidates, which is felt the more the fewer they are. Codes on a
    sphere are the latents of a sphere at the model's radius; in a box or without bounds one scale is free.
    """
    if s.space == "sphere" and s.latent_space != "sphere":
        raise UserError(f"Latents of the {s.latent_space} are no codes of a sphere: there is no f = g⁻¹.")
    draws, loss, generator = sampler(s), TheoryLoss(s), torch.Generator()
    scale = Positive([s.radius if s.space == "sphere" else 1.0])
    diagonals = fixed_diagonals(s, loss)
    trained = [*diagonals.parameters(), *([] if s.space == "sphere" or s.supervised else scale.parameters())]

    def at(stream: int, step: int) -> Tensor:
        latents = draws.draw(s.batch, generator.manual_seed(seed_of(s.seed, step, stream)))
        value: Tensor = loss([scale() * z for z in latents], latents)
        return value

    def averaged() -> list[float]:
        with torch.no_grad():
            return [float(at(SCORED, step)) for step in range(BATCHES)]

    at_lambda = mean(averaged()) if len(diagonals) else None
    if trained:
        optimiser = torch.optim.Adam(trained)
        for step in range(steps):
            set_rates(optimiser, [RATE], rate_factor("cosine", steps, step))
            optimiser.zero_grad()
            at(FITTED, step).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    values = averaged()
    found = [member().detach().tolist() for member in diagonals]
    return Minimum(mean(values), stdev(values) / BATCHES**0.5, float(scale().detach()), found, at_lambda)


def fixed_diagonals(s: Synthetic, loss: TheoryLoss) -> nn.ModuleList:
    """Put a Λ̂ that starts at the truth into every member of the loss that has one, and return them."""
    found = nn.ModuleList()
    truths = [[a - b for a, b in zip(s.lambdas[0], s.hard, strict=True)]] if s.hard else s.lambdas
    for member, truth in zip(loss.members, truths, strict=False):
        if isinstance(member, Objective) and member.precision is not None:
            own = Positive(truth)
            member.precision = own
            found.append(own)
    return found
