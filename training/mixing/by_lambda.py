"""Figures by Λ: means over latents that vary as much in a pair, and over those that vary less or more than others."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np

from ident3d.latents.exact.arithmetic import Float64
from ident3d.training.losses.choice import TRICL


def blocks(truth: Sequence[float], values: Sequence[float]) -> list[list[float]]:
    """Return the values in increasing order, in blocks as large as those of equal values in `truth`.

    Λ̂ is known up to a permutation, so its smallest entries are those of the smallest Λ.
    """
    ordered, found, start = sorted(values), [], 0
    for value in sorted(set(truth)):
        count = list(truth).count(value)
        found.append(ordered[start : start + count])
        start += count
    return found


def r2_of_halves(lambdas: Sequence[Sequence[float]], per_latent: Float64) -> dict[str, float]:
    """Return the mean R² of the latents whose Λ is above the middle of its range (content), and of the others (style).

    Return nothing if Λ is the same for all latents, or if several processes have a Λ each.
    """
    if len(lambdas) != 1 or len(set(lambdas[0])) == 1:
        return {}
    truth = np.array(lambdas[0])
    content = truth > (truth.min() + truth.max()) / 2
    return {"R² content": float(per_latent[content].mean()), "R² style": float(per_latent[~content].mean())}


def as_lambda(loss: str | None, tau: float) -> float:
    """Return what the diagonal that a loss learns is multiplied with to stand beside Λ.

    TriCL's similarity is ⟨s u, v⟩/τ, so that s/τ stands where AnInfoNCE has Λ̂; as released, for first views alone.
    """
    return 1 / tau if loss in TRICL else 1.0


def beside_lambda(
    lambdas: Sequence[Sequence[float]], facts: Mapping[str, Any], factor: float = 1.0
) -> list[tuple[str, str, str, str]]:
    """Return for each process Λ, the best Λ̂ at f = g⁻¹ and at a stretched one, and the run's, if the loss has a Λ̂.

    What a loss learns is multiplied by the factor, which is that of `as_lambda`.
    """
    lines = []
    # A loss without Λ̂ records none. The minimum is missing if it could not be estimated.
    for process, ours in enumerate(facts.get("precision", [])):
        truth = lambdas[process]
        best = facts["minimum"]["precision"][process] if "minimum" in facts else None
        stretched = facts["stretched"][process] if facts.get("stretched") else None
        second, third, last = (mean_of_blocks(truth, values, factor) for values in (best, stretched, ours))
        # In increasing order two processes look alike whose latents are not.
        which = f" (process {process + 1}, by size)" if len(lambdas) > 1 else ""
        lines.append((mean_of_blocks(truth, truth) + which, second, third, last))
    return lines


def mean_of_blocks(truth: Sequence[float], values: Sequence[float] | None, factor: float = 1.0) -> str:
    """Return the mean of each block of equal Λ, times a factor, or a dash if there are no values."""
    return "–" if values is None else ", ".join(f"{factor * mean(block):.4g}" for block in blocks(truth, values))
