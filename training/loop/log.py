"""What a run reports while it trains: a progress bar, a line of JSON now and then, TensorBoard on request."""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ident3d.errors import UserError
from ident3d.loaders.format.files import write_atomically
from ident3d.metrics import linear_r2, mcc
from ident3d.progress import progress_bar
from ident3d.training.loop.log_file import BY_LATENT, LOG_FILE, read_log

# A user's own function, called with each line of the log.
OnLog: TypeAlias = Callable[[dict[str, Any]], object]
# Codes whose spread is a smaller share of their size are all the same but for rounding.
COLLAPSED = 1e-4


class Log:
    """metrics.jsonl and the bar of a run that stands at step `first`; lines of steps to be done again are dropped."""

    def __init__(
        self,
        folder: Path | None,
        first: int,
        steps: int,
        *,
        show: bool,
        tensorboard: bool = False,
        on_log: OnLog | None = None,
    ) -> None:
        self.folder, self.step, self.on_log = folder, first, on_log
        self.clock, self.cpu = time.perf_counter(), time.process_time()
        self.bar = progress_bar(steps, "steps", initial=first, show=show and folder is not None)
        self.board = board(folder) if tensorboard and folder else None
        if folder:
            kept = [line for line in read_log(folder) if line["step"] <= first]
            write_atomically(folder / LOG_FILE, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def record(self, step: int, pairs: int, values: Mapping[str, Any]) -> None:
        """Append one line: the values, and pairs (or images) per second since the last line; show them at the bar."""
        if not self.folder:
            return
        now, cpu = time.perf_counter(), time.process_time()
        per_second = (step - self.step) * pairs / max(now - self.clock, 1e-9)
        seconds = {"seconds": round(now - self.clock, 4), "cpu_seconds": round(cpu - self.cpu, 4)}
        line = {"step": step, **values, "per_second": round(per_second, 2), **seconds}
        self.step, self.clock, self.cpu = step, now, cpu
        with (self.folder / LOG_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        shown = {"loss": "loss", "r2": "R²", "mcc": "MCC"}
        figures = {label: f"{values[name]:.3f}" for name, label in shown.items() if values.get(name) is not None}
        self.bar.set_postfix(figures | {"pairs/s": f"{per_second:.0f}"})
        if self.board is not None:
            for name, value in line.items():
                if isinstance(value, float):
                    self.board.add_scalar(name, value, step)
        if self.on_log is not None:
            self.on_log(line)

    def note(self, sentence: str) -> None:
        """Write a sentence above the bar, on standard error."""
        if self.folder:
            self.bar.write(f"Note: {sentence}", file=sys.stderr)

    def close(self) -> None:
        self.bar.close()
        if self.board is not None:
            self.board.close()


def board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("TensorBoard is not installed: pip install tensorboard, or leave --tensorboard away.") from None
    return SummaryWriter(str(folder / "tensorboard"))


def batch_scores(latents: Tensor, codes: Tensor) -> dict[str, Any]:
    """Return R² and MCC of a batch's codes, and R² of each latent.

    They are None if too few rows, or no latent that varies, give them a meaning.
    """
    z, h = latents.detach().double().cpu().numpy(), codes.detach().double().cpu().numpy()
    if len(z) <= 3 * h.shape[1] or not (z != z[:1]).any() or not torch.isfinite(codes).all():
        return {"r2": None, "mcc": None, BY_LATENT: None}
    found = linear_r2(z, h)
    # JSON has no number for a latent that is constant in this batch.
    by_latent = [round(float(value), 4) if math.isfinite(value) else None for value in found.per_latent]
    return {"r2": round(float(found), 5), "mcc": round(float(mcc(z, h)), 5), BY_LATENT: by_latent}


def check_finite(loss: float, step: int, last_saved: int) -> None:
    """Raise UserError if the loss is no finite number, before such weights are saved."""
    if math.isfinite(loss):
        return
    kept = f"the checkpoint of step {last_saved:,} is intact" if last_saved else "no checkpoint was written yet"
    raise UserError(
        f"The loss is {loss} by step {step:,}; {kept}. Try a lower --lr, a higher --tau (of "
        "a loss that has one), or --dtype fp32."
    )


def has_collapsed(codes: Tensor) -> bool:
    """Return whether all codes of a batch are the same but for rounding."""
    codes = codes.detach().float()
    return len(codes) > 1 and bool(codes.std(0).max() <= COLLAPSED * codes.abs().max())
