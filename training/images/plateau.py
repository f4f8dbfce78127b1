"""A plateau: batches are identified no better than long before, though a lower loss is possible."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from ident3d.training.images.best_box import BestBox
from ident3d.training.images.settings import BOUND_FASTER, TrainSettings
from ident3d.training.loop.log_file import BY_LATENT, is_number
from ident3d.training.losses.choice import WITH_NEGATIVES

# Most boxes that start wide leave their plateau by this step (docs/explanation/boxes.md); nothing is said before.
EARLIEST = 1_200
# R² is compared over so many steps, or over a share of the run if that is longer, or over so many lines of its log.
STEPS, SHARE, LINES = 400, 0.2, 8
# By how much R² may rise between the first and the last quarter of them, above which R² nothing is amiss, and how far
# the loss lies above what is possible.
FLAT, GOOD, GAP = 0.01, 0.95, 0.05
# Below this share of the highest rate a run comes to its end, and R² rests whatever the encoder has learnt.
HIGH = 0.1
# How much wider a box should be that started wide enough.
WIDEN = 1.3
# Pairs of a batch from which on larger batches are no advice.
ENOUGH = 512


class Plateau(NamedTuple):
    """The step that it was seen at, over how many steps, the mean R² and loss at its end, and the box's mean width."""

    step: int
    steps: int
    r2: float
    loss: float
    bound: float | None


def plateau(lines: Sequence[Mapping[str, Any]], best: BestBox, s: TrainSettings) -> Plateau | None:
    """Return the plateau that a log's last lines show: R² is flat, and the loss is above the best box's; else None.

    Where an anchor is among its own negatives, any run may end below the best box's loss, so R² alone decides.
    """
    lines = [line for line in lines if is_scored(line) and line.get("lr", s.lr) >= HIGH * s.lr]
    if len(lines) < LINES or (last := lines[-1]["step"]) < EARLIEST:
        return None
    # The loss of the best box is out of reach of fewer codes than latents.
    if len(lines[-1].get(BY_LATENT) or ()) > (s.dim or 0) > 0:
        return None
    since = last - max(STEPS, SHARE * s.steps)
    recent = lines[min(sum(line["step"] <= since for line in lines), len(lines) - LINES) :]
    quarter = len(recent) // 4
    r2, loss = (mean(line[name] for line in recent[-quarter:]) for name in ("r2", "loss"))
    rise = r2 - mean(line["r2"] for line in recent[:quarter])
    found = Plateau(last, last - recent[0]["step"], r2, loss, lines[-1].get("bound"))
    # Losses without a choice of negatives record "batch" as well.
    with_itself = s.loss in WITH_NEGATIVES and s.negatives == "batch"
    could_be_lower = with_itself or loss > best.loss + GAP
    return found if rise < FLAT and r2 < GOOD and could_be_lower else None


def is_scored(line: Mapping[str, Any]) -> bool:
    """Return whether a line of a log holds what a plateau is seen by. A batch of few pairs has no R²."""
    return is_number(line.get("r2")) and is_number(line.get("loss"))


def advice(found: Plateau, best: BestBox, s: TrainSettings) -> str:
    """Return a sentence that says where a run rests, what loss is possible, and what helps."""
    # Larger batches come first: they leave the plateau and line codes up, where a wider box may leave them mixed.
    ways = [f"larger batches (--batch {ENOUGH})"] if s.batch < ENOUGH else []
    start = s.bound or best.start
    # A box that is as wide as the best one is not what is amiss: a wider one would leave the codes mixed.
    if "box" in str(s.space) and s.learnable is not False and max(start, found.bound or 0.0) < best.width:
        wider = best.start if start < best.start else min(WIDEN * start, best.width)
        ways.append(f"a wider box (--bound {wider:.3g})")
        if (s.space_lr or s.lr) < BOUND_FASTER * s.lr:
            ways.append(f"a box that moves faster (--space-lr {BOUND_FASTER * s.lr:g})")
    if s.encoder.startswith("resnet") and "flat" not in s.encoder:
        ways.append(f"features that are not averaged (--encoder conv or {s.encoder}+flat)")
    ways.append("more steps at a high --lr")
    possible = f", and the loss is {found.loss:.2f} where {best.loss:.2f} is possible" if found.loss > best.loss else ""
    return (
        f"By step {found.step:,} the run rests on a plateau: R² of batches has been {found.r2:.2f} for {found.steps:,} "
        f"steps{possible}. What helps: {', '.join(ways)}."
    )
