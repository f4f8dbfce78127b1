"""Figures by Λ: means over latents that vary as much in a pair, and over those that vary less or more than others."""

from collections.abc import Sequence

import numpy as np

from ident3d.latents.exact.arithmetic import Float64


def blocks(truth: Sequence[float], values: Sequence[float]) -> list[list[float]]:
    """The values in increasing order, in as many blocks, of the same sizes, as there are different values in `truth`.

    Λ̂ is known up to a permutation, so its smallest entries are those of the smallest Λ.
    """
    ordered, found, start = sorted(values), [], 0
    for value in sorted(set(truth)):
        count = list(truth).count(value)
        found.append(ordered[start : start + count])
        start += count
    return found


def halves(lambdas: Sequence[Sequence[float]], per_latent: Float64) -> dict[str, float]:
    """Mean R² of the latents whose Λ is above the middle of its range (content), and of the others (style).

    Nothing where Λ is the same for all latents, or where several processes have a Λ each.
    """
    if len(lambdas) != 1 or len(set(lambdas[0])) == 1:
        return {}
    truth = np.array(lambdas[0])
    content = truth > (truth.min() + truth.max()) / 2
    return {"R² content": float(per_latent[content].mean()), "R² style": float(per_latent[~content].mean())}
