"""What follows a training run: scores on held-out images where there are any, and the report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.training.images.evaluate import Evaluation, evaluate, held_out_of
from ident3d.training.images.run import open_run
from ident3d.training.report.report import write_report


@dataclass(frozen=True)
class Finished:
    """A trained run with its scores, or the reason why there are none, and its report."""

    run: Path
    evaluation: Evaluation | None
    not_scored: str | None
    report: Path

    def as_dict(self) -> dict[str, Any]:
        scored = None if self.evaluation is None else self.evaluation.as_dict()
        return {
            "run": str(self.run),
            "report": str(self.report),
            "evaluation": scored,
            "not_scored": self.not_scored,
        }

    def text(self) -> str:
        scores = self.evaluation.table() if self.evaluation else f"Not scored: {self.not_scored}"
        return f"{scores}\n\nRun: {self.run}\nReport: {self.report}"


def finish(
    run: Path, *, root: Path | None = None, device: str = "auto", allow_same: bool = False, encoder: str | None = None
) -> Finished:
    """Score a run on its matching test set (with `allow_same` and without one, on its training set) and report."""
    opened, evaluation, reason = open_run(run), None, None
    alone = allow_same and held_out_of(opened, root) is None
    data = opened.data["path"] if alone else None
    try:
        evaluation = evaluate(run, data, root=root, device=device, encoder=encoder, allow_same=allow_same)
    except UserError as error:
        reason = str(error)
    return Finished(run, evaluation, reason, write_report(run))
