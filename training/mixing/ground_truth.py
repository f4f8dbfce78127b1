"""What a loss comes to at f = g⁻¹: its global minimum, estimated from the latents themselves, without an encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import mean, stdev

import torch
from torch import Tensor, nn

from ident3d.errors import UserError
from ident3d.training.loop.steps import Stream, rate_factor, seed_of, set_rates
from ident3d.training.losses.objective import Objective
from ident3d.training.mixing.loss import MixingLoss
from ident3d.training.mixing.sampling import sampler
from ident3d.training.mixing.settings import MixingSettings

# Adam's steps and rate for the best scale and Λ̂, and the fresh batches that the loss is then averaged over
STEPS, RATE, BATCHES = 300, 5e-2, 20
# Multiples of Λ⁺ - Λ⁻ at which the loss of hard negatives is shown
FACTORS = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.7, 2.0, 2.5, 3.0)


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


class NoMinimum(UserError):
    """The loss at f = g⁻¹ is no finite number."""


class Positive(nn.Module):
    """Positive numbers exp(l) that start at given values."""

    def __init__(self, start: Sequence[float]) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(start).log())

    def forward(self) -> Tensor:
        return self.log.exp()


def global_minimum(s: MixingSettings, steps: int = STEPS) -> Minimum:
    """Return the loss at f = g⁻¹ with the best scale c and the best Λ̂, by Adam on fresh batches of complete settings.

    The batch counts, most of all if an anchor is among its own negatives: the fewer these are, the more it weighs.
    Codes on a sphere are the latents of a sphere at the model's radius; in a box or without bounds one scale is free.
    """
    if s.space == "sphere" and s.latent_space != "sphere":
        raise UserError(f"Latents of the {s.latent_space} are no codes of a sphere: there is no f = g⁻¹.")
    loss, scale = MixingLoss(s), Positive([s.radius if s.space == "sphere" else 1.0])
    diagonals = fixed_diagonals(s, loss)
    # Before Λ̂ moves: it starts at the truth.
    at_lambda = mean(batch_losses(s, loss, scale)) if len(diagonals) else None
    minimise(s, loss, scale, [*diagonals, *([] if s.space == "sphere" or s.supervised else [scale])], steps)
    values, found = batch_losses(s, loss, scale), as_lists(diagonals)
    # A steep p, or a user's own loss, may have none.
    if not all(isfinite(value) for value in values):
        raise NoMinimum("The loss has no minimum over the scale of f = g⁻¹ that could be found: it ends at no number.")
    return Minimum(mean(values), stdev(values) / BATCHES**0.5, float(scale().detach()), found, at_lambda)


def stretched_precision(s: MixingSettings, steps: int = STEPS) -> list[list[float]]:
    """Return the best Λ̂ at h = A z / |A z| for the best diagonal A: where an encoder may end.

    AnInfoNCE's sampler rejects and projects, so that its pairs are not quite of the loss's form: stretched latents do
    better than the latents themselves, and have a Λ̂ of their own. Return nothing off the sphere, where A and Λ̂ are
    one, and for a loss without Λ̂.
    """
    if s.space != "sphere" or s.loss != "aninfonce" or s.hard:
        return []
    loss, scales = MixingLoss(s), Positive([1.0] * s.dim)
    diagonals = fixed_diagonals(s, loss)
    minimise(s, loss, scales, [*diagonals, scales], steps)
    return as_lists(diagonals)


def loss_by_lambda(s: MixingSettings) -> list[tuple[float, float]]:
    """Return points (mean Λ̂, loss) at f = g⁻¹ for multiples Λ̂ of Λ⁺ - Λ⁻, all on the same batches."""
    loss, scale, found = MixingLoss(s), Positive([1.0]), []
    truth = [a - b for a, b in zip(s.lambdas[0], s.hard, strict=True)]
    for factor in FACTORS:
        loss.first.precision = Positive([factor * value for value in truth])
        found.append((factor * mean(truth), mean(batch_losses(s, loss, scale))))
    return found


def minimise(s: MixingSettings, loss: MixingLoss, scale: Positive, trained: Sequence[nn.Module], steps: int) -> None:
    """Minimise the loss of h = scale · z by Adam, over the parameters of `trained`."""
    if not trained:
        return
    optimiser = torch.optim.Adam(parameter for module in trained for parameter in module.parameters())
    for step in range(steps):
        set_rates(optimiser, [RATE], rate_factor("cosine", steps, step))
        optimiser.zero_grad()
        loss_at(s, loss, scale, Stream.MINIMUM_FITTED, step).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def batch_losses(s: MixingSettings, loss: MixingLoss, scale: Positive) -> list[float]:
    """Return the losses of batches that nothing was fitted on."""
    with torch.no_grad():
        return [float(loss_at(s, loss, scale, Stream.MINIMUM_SCORED, step)) for step in range(BATCHES)]


def loss_at(s: MixingSettings, loss: MixingLoss, scale: Positive, stream: Stream, step: int) -> Tensor:
    """Return the loss of a batch at h = scale · z."""
    # Each stream has its own draws, so that no batch is both fitted and scored.
    latents = sampler(s).draw(s.batch, torch.Generator().manual_seed(seed_of(s.seed, step, stream)))
    value: Tensor = loss([scale() * z for z in latents], latents)
    return value


def as_lists(diagonals: nn.ModuleList) -> list[list[float]]:
    return [member().detach().tolist() for member in diagonals]


def fixed_diagonals(s: MixingSettings, loss: MixingLoss) -> nn.ModuleList:
    """Put a Λ̂ that starts at the truth into every member of the loss that has one, and return them."""
    found = nn.ModuleList()
    # With hard negatives the best Λ̂ is Λ⁺ - Λ⁻.
    truths = [[a - b for a, b in zip(s.lambdas[0], s.hard, strict=True)]] if s.hard else s.lambdas
    for member, truth in zip(loss.members, truths, strict=False):
        if isinstance(member, Objective) and member.precision is not None:
            own = Positive(truth)
            member.precision = own
            found.append(own)
    return found
