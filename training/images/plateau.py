"""A plateau: batches are identified no better than long before, though a lower loss is possible."""

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

from ident3d.training.images.best_box import BestBox
from ident3d.training.images.settings import TrainSettings

# Steps over which nothing changed, and lines of the log that must lie in them; by how much R² may still rise, above
# which R² nothing is amiss, and how far the loss lies above what is possible.
STEPS, LINES, RISE, GOOD, GAP = 200, 8, 0.01, 0.95, 0.05
# How much wider a box should be that started wide enough.
MORE = 1.3


class Plateau(NamedTuple):
    """The step that it was seen at, and the mean R² and loss of its later half."""

    step: int
    r2: float
    loss: float


def plateau(lines: Sequence[dict[str, Any]], best: BestBox) -> Plateau | None:
    """Return the plateau that a log's last lines show: R² is flat, and the loss is above the best box's; else None."""
    if not lines or lines[-1]["step"] - lines[0]["step"] < STEPS:
        return None
    recent = [line for line in lines if line["step"] > lines[-1]["step"] - STEPS and line.get("r2") is not None]
    if len(recent) < LINES:
        return None
    before, now = recent[: len(recent) // 2], recent[len(recent) // 2 :]
    r2, loss = (mean(line[name] for line in now) for name in ("r2", "loss"))
    flat = r2 - mean(line["r2"] for line in before) < RISE
    return Plateau(lines[-1]["step"], r2, loss) if flat and r2 < GOOD and loss > best.loss + GAP else None


def advice(found: Plateau, best: BestBox, s: TrainSettings) -> str:
    """Return a sentence that says where a run rests, what loss is possible, and what helps."""
    ways = []
    if "box" in str(s.space) and s.learnable is not False:
        wider = best.start if s.bound and s.bound < best.start else MORE * (s.bound or best.start)
        ways.append(f"a wider and faster box (--bound {wider:.3g}, a higher --space-lr)")
    if s.encoder.startswith("resnet") and "flat" not in s.encoder:
        ways.append(f"features that are not averaged (--encoder conv or {s.encoder}+flat)")
    ways.append("more steps at a high --lr")
    return (
        f"By step {found.step:,} the run rests on a plateau: R² of batches has been {found.r2:.2f} for {STEPS} steps, "
        f"and the loss is {found.loss:.2f} where {best.loss:.2f} is possible. What helps: {', '.join(ways)}."
    )
