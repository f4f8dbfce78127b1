"""Samples of latents, drawn on the device that trains: pairs of every process, and negatives of each anchor's own."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ident3d.latents.distributions.by_name import Marginal, conditional, uniforms
from ident3d.latents.distributions.conditionals import Conditional
from ident3d.training.mixing.settings import MixingSettings, conditionals_of, marginal_of, space_of


@dataclass(frozen=True)
class Sampler:
    """p(z), each process's p(z̃ | z), and p(z⁻ | z) of `hard_count` hard negatives per anchor, if any."""

    marginal: Marginal
    conditionals: tuple[Conditional, ...]
    negatives: Conditional | None = None
    hard_count: int = 0

    def draw(self, count: int, generator: torch.Generator) -> list[Tensor]:
        """Return z, z̃ (count, d) of each process in turn, then z⁻ (count · hard_count, d), on the generator's device.

        Without a conditional it draws anchors alone.
        """
        # Every number comes from one generator in a fixed order, so a resumed run draws what it would have drawn.
        uniform = uniforms(generator, torch.empty(0, device=generator.device))
        if not self.conditionals:
            return [self.marginal.sample(count, uniform)]
        views: list[Tensor] = []
        for positive in self.conditionals:
            z = self.marginal.sample(count, uniform)
            views += [z, positive.sample(z, uniform)]
        if self.negatives is not None:
            views.append(self.negatives.sample(views[0].repeat_interleave(self.hard_count, 0), uniform))
        return views


def sampler(s: MixingSettings) -> Sampler:
    """Return the draws that complete settings ask for; supervised runs take anchors alone."""
    if s.supervised:
        return Sampler(marginal_of(s), ())
    negatives = conditional("rejected_normal", space_of(s), precision=s.hard) if s.hard else None
    return Sampler(marginal_of(s), tuple(conditionals_of(s)), negatives, s.hard_count if s.hard else 0)
