"""Training runs in a process of its own: python train_here.py DATA OPTIONS-JSON OUT SETTINGS-JSON [OUT SETTINGS …]."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train


def killer(step: int) -> Any:
    """A reader of the log that kills this process at a step, before the step's checkpoint is written."""

    def read(line: dict[str, Any]) -> None:
        if line["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return read


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    data, options, *runs = sys.argv[1:]
    given = json.loads(options)
    if step := given.pop("killed_at", None):
        given["on_log"] = killer(step)
    for out, settings in zip(runs[::2], runs[1::2], strict=True):
        own = TrainSettings(**json.loads(settings))
        train(data, own, out=Path(out), workers=0, show_progress=False, **given)
    if dist.is_initialized():
        dist.destroy_process_group()
