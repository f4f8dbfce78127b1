"""What follows a training run: scores on held-out images if there are any, and the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.training.images.evaluate import Evaluation, evaluate
from ident3d.training.images.run import Run, open_run
from ident3d.training.images.which_dataset import held_out_folder
from ident3d.training.loop.run_folder import IMAGES_RUN, MIXING_RUN, record_of
from ident3d.training.mixing.scores import evaluate_mixing
from ident3d.training.mixing.train import MixingRun
from ident3d.training.report.mixing_report import write_mixing_report
from ident3d.training.report.report import write_report


@dataclass(frozen=True)
class FinishedRun:
    """A trained run with its scores, or the reason why there are none, and its report."""

    run: Path
    evaluation: Evaluation | None
    not_scored: str | None
    report: Path

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": str(self.run),
            "report": str(self.report),
            "evaluation": None if self.evaluation is None else self.evaluation.as_dict(),
            "not_scored": self.not_scored,
        }

    def text(self) -> str:
        scores = self.evaluation.table() if self.evaluation else f"Not scored: {self.not_scored}"
        return f"{scores}\n\nRun: {self.run}\nReport: {self.report}"


def finish(
    run: Run | Path | str,
    *,
    root: Path | str | None = None,
    device: str = "auto",
    allow_same: bool = False,
    encoder: str | Callable[..., Any] | None = None,
    metrics: str | Sequence[str] = "default",
) -> FinishedRun:
    """Score a run on its matching test set by `metrics`, as `evaluate` takes them, and write its report.

    If there is no such set and `allow_same` is set, the run is scored on the images that it was trained on.
    """
    opened = run if isinstance(run, Run) else open_run(run)
    evaluation, reason = None, None
    data: Path | str | None = held_out_folder(opened, root)
    if data is None and allow_same:
        data = opened.data["path"]
    # A run that cannot be scored is still reported: the training took hours, and its curves are there.
    try:
        evaluation = evaluate(
            opened, data, root=root, device=device, encoder=encoder, allow_same=allow_same, metrics=metrics
        )
    except UserError as error:
        reason = str(error)
    return FinishedRun(opened.path, evaluation, reason, write_report(opened, evaluation))


def report(run: Run | MixingRun | Path | str) -> Path:
    """Write the report of a run on images or on mixed latents, `report.html` in its folder, as the commands do.

    It holds the scores that `evaluate` has written. A `MixingRun` is scored here.

    Args:
        run: The run's folder, or what `train` or `mixing` returned.

    Returns:
        The file.

    Example:
        >>> import ident3d
        >>> ident3d.report(run).name
        'report.html'
    """
    if isinstance(run, MixingRun):
        assert run.path is not None
        return write_mixing_report(run.path, evaluate_mixing(run))
    if isinstance(run, Run):
        return write_report(run)
    with record_of(Path(run), IMAGES_RUN, MIXING_RUN) as content:
        is_mixing = content["format"] == MIXING_RUN
    return write_mixing_report(run) if is_mixing else write_report(run)
