"""Pairs by precision Λ, and what a third image of a pair is for: a hard negative, or a second positive.

Λ_k is 1/σ_k² of a normal conditional on each latent: --lambda gives Λ⁺ of positives, --hard-lambda Λ⁻ of negatives
drawn around the anchor. With two --lambda each anchor has a positive of either conditional, and the loss a Λ̂ for each.
"""

from collections.abc import Sequence
from typing import Any, Final

from ident3d.errors import UserError
from ident3d.training.losses.choice import check_hard, spread_out

MOST_CONDITIONALS: Final = 2
Precisions = tuple[tuple[float, ...], ...]


def complete_precisions(
    lambdas: Precisions, hard: Sequence[float], *, sigma: float, loss: str, latents: int
) -> tuple[Precisions, tuple[float, ...]]:
    """Return Λ⁺ of every conditional and Λ⁻, a value for each latent that varies; UserError if they do not fit."""
    if len(lambdas) > MOST_CONDITIONALS:
        raise UserError(f"--lambda is given at most twice in training on images, not {len(lambdas)} times.")
    if len(lambdas) > 1 and (hard or loss == "mse" or ":" in loss):
        other = "--hard-lambda" if hard else f"--loss {loss}"
        raise UserError(f"Two --lambda give each anchor two positives; that does not go with {other}.")
    positives = tuple(spread_out("lambda", values, latents) for values in lambdas)
    if not hard:
        return positives, ()
    negatives = spread_out("hard-lambda", hard, latents)
    check_hard(loss, positives[0] if positives else (sigma**-2,) * latents, negatives)
    return positives, negatives


def check_precisions(given: bool, *, cond: str, sigma: float, usual_sigma: float, sphere: bool, lambdas: bool) -> None:
    """Raise UserError if Λ is given where pairs are not normal ones on a box."""
    if not given:
        return
    if cond != "normal" or sphere:
        where = "latents that share a sphere" if sphere else f"--cond {cond}"
        raise UserError(f"--lambda and --hard-lambda are precisions of --cond normal on a box, not of {where}.")
    if lambdas and sigma != usual_sigma:
        raise UserError(f"--lambda gives the pairs their width, 1/√Λ; leave --sigma {sigma:g} away.")


def widths_of_latents(precision: Sequence[float], names: Sequence[str], moving: Sequence[str]) -> list[float]:
    """Return σ = 1/√Λ of each raw latent; Λ has a value for each latent that varies, and the others are held anyway."""
    own = dict(zip(moving, precision, strict=True))
    return [own.get(name, 1.0) ** -0.5 for name in names]


def third_conditional(
    lambdas: Precisions, hard: Sequence[float], names: Sequence[str], moving: Sequence[str], only: Sequence[str]
) -> dict[str, Any] | None:
    """Return the conditional that a pair's third image is drawn from, as PairDataset takes it; None without one."""
    precision = hard or (lambdas[1] if len(lambdas) > 1 else ())
    if not precision:
        return None
    return {"cond": "normal", "sigma": widths_of_latents(precision, names, moving), "only": only or None}
