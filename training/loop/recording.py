"""What follows a step in every training loop: checks, a line of the log, a checkpoint, and the end of a stopped run."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from torch import Tensor

from ident3d.errors import UserError
from ident3d.loaders.stores.lease import Lease
from ident3d.training.loop.log import Log, batch_scores, check_finite, has_collapsed


class Step(NamedTuple):
    """A finished step: how many are done now, the loss, the anchors' latents (B, d), all codes, the anchors' first."""

    done: int
    loss: Tensor
    latents: Tensor
    codes: Tensor

    def figures(self) -> dict[str, Any]:
        """Return the loss and the scores of the batch, for the log."""
        return {"loss": float(self.loss), **batch_scores(self.latents, self.codes[: len(self.latents)])}


def record_steps(
    steps: Iterable[Step],
    log: Log,
    *,
    first: int,
    last: int,
    save_every: int,
    log_every: int,
    lease: Lease | None,
    asked_to_stop: Callable[[], bool],
) -> Iterator[tuple[Step, bool]]:
    """Take the steps, and yield those that the log wants a line of, with whether a checkpoint is due as well.

    Raise KeyboardInterrupt after the step in which a stop was asked for, once its checkpoint is written.
    """
    saved, noted = first, False
    for step in steps:
        done, stop = step.done, asked_to_stop()
        to_save = done % save_every == 0 or done == last or stop
        if to_save or done % log_every == 0 or done == first + 1:
            # Another process may have taken the folder over, and diverged weights must not replace sound ones. So
            # both are checked before anything is written.
            if lease:
                lease.check()
            check_finite(float(step.loss), done, saved)
            if has_collapsed(step.codes) and not noted:
                noted = True
                log.note(f"By step {done:,} all codes are the same: the encoder has collapsed.")
            yield step, to_save
            saved = done if to_save else saved
        log.bar.update()
        if stop and done < last:
            raise KeyboardInterrupt


def check_request(settings: object, kind: type, save_every: int, log_every: int, on_log: object) -> None:
    """Raise UserError if settings or `on_log` are of a wrong kind, or if checkpoints are to come more often than steps.

    The same holds for lines of the log.
    """
    if not isinstance(settings, kind):
        raise UserError(
            f"The settings are a {kind.__name__}, not {settings!r}: ident3d.{kind.__name__}(batch=16), say."
        )
    if on_log is not None and not callable(on_log):
        raise UserError(f"on_log is a function that takes a line of the log, not {on_log!r}.")
    if min(save_every, log_every) < 1:
        raise UserError("--save-every and --log-every are at least 1 step.")
