"""Where a box starts: the width at which the true latents as codes have the least loss, on pairs as they turned out."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from ident3d.latents.distributions.spaces import Circle, goes_round
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.training.images.settings import PUBLIC_BOUND, WITH_BEST_BOX, TrainSettings, moving_latents
from ident3d.training.losses.alignment import alignment_uniformity
from ident3d.training.losses.aninfonce import Precision, an_info_nce
from ident3d.training.losses.contrastive import delta_contrastive

# A box starts at this share of the best width. In one that codes do not fill, little keeps them from being rotated, and
# it takes thousands of steps to undo that. Narrower ones hold single latents back, the longer the slower they widen.
SHARE = 0.7
# Pairs that are measured, more if a batch is larger, and the widths that are tried, to a hundredth.
PAIRS, NARROWEST, WIDEST, TOLERANCE = 8192, 0.1, 100.0, 0.01


@dataclass(frozen=True)
class BestBox:
    """The width of the best box of the true latents, the loss there, the mean |z̃ - z| of the pairs, and a start.

    The width is that of every dimension of codes h = width (z + 1) / 2. Codes that are not linear in the latents may
    have a loss below theirs: with an anchor among its own negatives, runs end a tenth below it.
    """

    width: float
    loss: float
    pair_width: float
    start: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, recorded: Any) -> "BestBox | None":
        """Return what a run recorded, or None if it recorded none."""
        try:
            return cls(*(float(recorded[name]) for name in ("width", "loss", "pair_width", "start")))
        except (KeyError, TypeError, ValueError):
            return None


def best_box(s: TrainSettings, pairs: PairDataset) -> BestBox | None:
    """Return the best box of complete settings on these pairs; None for a loss without differences, or a user's own.

    The batch counts, and whether an anchor is among its own negatives; so the settings' loss is minimised itself, on
    batches as large as the settings'. An anchor among its own negatives narrows the best box. Hard negatives, a second
    conditional and the number of codes are left out. Views have none: their private latents should be in no code.
    """
    if s.loss not in WITH_BEST_BOX or s.space == "sphere" or s.rule == "view":
        return None
    if not moving_latents(pairs.source.world):
        return None
    z, z_tilde, boxed = whole_batches(s, pairs)
    width, loss = least_loss(s, z, z_tilde, boxed)
    pair_width = float((z - z_tilde)[:, boxed].abs().mean())
    return BestBox(round(width, 2), round(loss, 4), round(pair_width, 4), round(SHARE * width, 2))


def whole_batches(s: TrainSettings, pairs: PairDataset) -> tuple[Tensor, Tensor, Tensor]:
    """Return latents that vary of anchors and positives (n, d), whole batches of them, and which are a box's (d,)."""
    world = pairs.source.world
    drawn = pairs.sampler.pairs(np.arange(max(PAIRS, s.batch) // s.batch * s.batch))
    moving = [world.names.index(name) for name in moving_latents(world)]
    z, z_tilde = (pairs.sampler.latents[index][:, moving] for index in (drawn.anchor, drawn.positive))
    # An angle's positive may lie behind the end where the numbers start again. It is as near as the shorter way round.
    circles, turn = goes_round(world.space)[moving], Circle.high - Circle.low
    z_tilde[:, circles] -= turn * np.round((z_tilde - z)[:, circles] / turn)
    # The periodic variant has eight numbers on a sphere after its positions. The box holds the positions alone.
    boxed = torch.tensor([s.space != "box*sphere" or k < 3 for k in range(len(moving))])
    return torch.from_numpy(z), torch.from_numpy(z_tilde), boxed


def least_loss(s: TrainSettings, z: Tensor, z_tilde: Tensor, boxed: Tensor) -> tuple[float, float]:
    """Return the width with the least mean loss, and that loss."""
    value = loss_of(s, z.shape[1])

    @torch.no_grad()
    def mean_loss(log_width: float) -> float:
        scale = torch.where(boxed, exp(log_width) / 2, s.radius)
        batches = zip(torch.split(scale * z, s.batch), torch.split(scale * z_tilde, s.batch), strict=True)
        return float(torch.stack([value(a, b).mean() for a, b in batches]).mean())

    # A temperature makes all best widths τ^(1/p) times as wide.
    unit = s.tau ** (1 / (s.model_p or 2.0))
    bounds = (log(NARROWEST * unit), log(WIDEST * unit))
    found = minimize_scalar(mean_loss, bounds=bounds, method="bounded", options={"xatol": TOLERANCE})
    return exp(found.x), float(found.fun)


def start_of(box: BestBox, s: TrainSettings) -> float:
    """Return where a box starts whose bound was not given: at the best width itself if it cannot move from there."""
    return box.width if s.learnable is False else box.start


def usual_start(s: TrainSettings) -> str:
    """Return a sentence on where a box starts if no best box can be searched for."""
    why = "a training without pairs of known latents"
    if ":" in str(s.loss):
        why = f"your own loss {s.loss}, which may have any scale"
    elif s.loss not in WITH_BEST_BOX:
        why = f"the loss {s.loss}"
    elif s.rule == "view":
        why = "views, whose private latents no code should hold"
    among = "; the negatives of an anchor are all anchors of the batch, itself among them" if ":" in str(s.loss) else ""
    return (
        f"The box starts {s.bound or PUBLIC_BOUND:g} wide: --bound auto finds no start for {why}. "
        f"{moves(s).capitalize()}{among}. Give --bound and --space-lr for another start."
    )


def has_another_start(facts: Mapping[str, Any]) -> bool:
    """Return whether a run, by what was recorded of it, found the start of its box in an earlier way than today's."""
    s, box = facts.get("settings") or {}, BestBox.from_dict(facts.get("best_box"))
    is_found = s.get("bound") is None and "box" in str(s.get("space")) and s.get("learnable") is not False
    # Both are rounded to a hundredth.
    return box is not None and is_found and abs(box.start - SHARE * box.width) > 2 * TOLERANCE


def start_of_box(box: BestBox, s: TrainSettings) -> str:
    """Return a sentence on where and why a box starts, and how fast its bound moves."""
    best = "its best width"
    if s.learnable is not False:
        best = f"{SHARE:g} of the best width {box.width:g}"
    return (
        f"The box starts {start_of(box, s):g} wide, {best}, for pairs as wide as these (mean |z̃ - z| "
        f"{box.pair_width:.3f}) in batches of {s.batch}; {moves(s)}."
    )


def moves(s: TrainSettings) -> str:
    return f"its bound moves at a rate of {s.space_lr or s.lr:g}" if s.learnable is not False else "it stays so"


def loss_of(s: TrainSettings, dim: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the settings' loss of codes (B, d), (B, d) in one process: `Objective` would ask the other ranks."""
    first_row = 0 if s.negatives == "others" else None
    p = s.model_p or 2.0
    if s.loss == "delta":
        return lambda z, z_tilde: delta_contrastive(z, z_tilde, p=p, tau=s.tau, first_row=first_row)
    if s.loss == "au":
        return lambda z, z_tilde: alignment_uniformity(z, z_tilde, alpha=s.alpha, p=p, drop_last=s.drop_last)
    # Λ̂ is learnt too, and starts here.
    start = Precision(dim, generator=torch.Generator().manual_seed(s.seed))().detach()
    return lambda z, z_tilde: an_info_nce(z, z_tilde, start, normalize=False)
