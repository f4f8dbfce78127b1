"""Checkpoints: one safetensors file whose header holds the rest as JSON. No pickle; whole, or not there.

Besides the weights: Adam's moments, the scale of fp16's gradients, and where the loader is. Random draws need no state,
because each step seeds the generators from (seed, step, rank).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from ident3d.errors import UserError
from ident3d.loaders.format.files import parse_json, write_atomically

State: TypeAlias = dict[str, Any]
CHECKPOINT_FILE = "checkpoint.safetensors"
MODEL, OBJECTIVE, OPTIMISER = "model.", "objective.", "optimiser."
# What Adam keeps for each parameter.
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` steps."""

    step: int
    tensors: dict[str, Tensor]
    loader: State
    scaler: State

    def part(self, prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in self.tensors.items() if name.startswith(prefix)}


def state_of(
    step: int, model: nn.Module, objective: nn.Module, optimiser: Optimizer, loader: State, scaler: State
) -> Checkpoint:
    """Return what a checkpoint keeps of a run's parts."""
    tensors = {MODEL + name: value for name, value in model.state_dict().items()}
    tensors |= {OBJECTIVE + name: value for name, value in objective.state_dict().items()}
    for number, moments in optimiser.state_dict()["state"].items():
        tensors |= {f"{OPTIMISER}{number}.{name}": value for name, value in moments.items()}
    return Checkpoint(step, tensors, loader, scaler)


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the folder's checkpoint in one go. If that fails, the one before is intact."""
    state = {"step": checkpoint.step, "loader": checkpoint.loader, "scaler": checkpoint.scaler}
    if bad := next((name for name, value in checkpoint.tensors.items() if not value.isfinite().all()), None):
        raise UserError(
            f"After step {checkpoint.step:,} {bad} is not finite and is not saved; try a lower --lr, or --dtype fp32."
        )
    # Channels-last weights lose their strides here, and get them back when they are copied into the model.
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in checkpoint.tensors.items()}
    try:
        write_atomically(folder / CHECKPOINT_FILE, safetensors.torch.save(tensors, {"ident3d": json.dumps(state)}))
    except OSError as error:
        kept = "the last checkpoint is intact" if (folder / CHECKPOINT_FILE).exists() else "there is no checkpoint yet"
        raise UserError(
            f"The checkpoint of step {checkpoint.step:,} cannot be written to {folder} ({error.strerror}); {kept}. "
            "Make room, and go on with --resume."
        ) from error


def to_resume(folder: Path, resume: bool) -> bool:
    """Return whether the folder holds a run to go on with. Raise UserError if it does and `resume` is not set."""
    found = (folder / CHECKPOINT_FILE).exists()
    if found and not resume:
        raise UserError(
            f"{folder} holds a run already; go on with --resume, or choose another --out (in Python resume=True, out=)."
        )
    return found


def load(folder: Path) -> Checkpoint:
    """Return the folder's checkpoint, every field checked."""
    path = folder / CHECKPOINT_FILE
    if not path.is_file():
        raise UserError(f"{folder} has no checkpoint.")
    try:
        with safe_open(path, framework="pt") as file:
            state = parse_json((file.metadata() or {})["ident3d"].encode())
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dict
        step, loader, scaler = state["step"], state["loader"], state["scaler"]
    except (SafetensorError, KeyError, ValueError, TypeError, OSError) as error:
        raise UserError(f"{path} is not a checkpoint of ident3d: {error}.") from None
    except MemoryError:
        raise UserError(f"There is not enough memory to read {path} of {path.stat().st_size:,} bytes.") from None
    if type(step) is not int or not 0 <= step < 2**63 or not isinstance(scaler, dict):
        raise UserError(f"{path} is not a checkpoint of ident3d: its state is of a wrong kind.")
    if not isinstance(loader, dict) or any(type(loader.get(name)) is not int for name in ("epoch", "batch")):
        raise UserError(f"{path} is not a checkpoint of ident3d: it does not say where the loader was.")
    return Checkpoint(step, tensors, loader, scaler)


def restore_all(
    folder: Path, model: nn.Module, objective: nn.Module, optimiser: Optimizer, *, encoder: str, loss: str
) -> Checkpoint:
    """Copy the folder's checkpoint into a run's parts and return it. The names of encoder and loss are for errors."""
    kept = load(folder)
    restore(model, kept.part(MODEL), f"encoder {encoder}")
    restore(objective, kept.part(OBJECTIVE), f"loss {loss}")
    restore_optimiser(optimiser, kept.part(OPTIMISER))
    return kept


def restore(module: nn.Module, tensors: dict[str, Tensor], what: str) -> None:
    """Copy tensors into a module that must have exactly these. Raise UserError for the first that differs."""
    own = module.state_dict()
    missing, unexpected = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    kinds = {name: (value.shape, value.dtype) for name, value in own.items()}
    other = [
        name for name in kinds.keys() & tensors.keys() if kinds[name] != (tensors[name].shape, tensors[name].dtype)
    ]
    if missing or unexpected or other:
        name = (missing + unexpected + sorted(other))[0]
        why = "is missing there" if missing else "is unknown here" if unexpected else "has another shape or type"
        raise UserError(f"The checkpoint is of another architecture than this {what}: {name} {why}.")
    module.load_state_dict(tensors)


def restore_optimiser(optimiser: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give Adam its moments back, of its parameters' shapes; rates are functions of the step and the settings.

    A parameter that no loss has reached has none.
    """
    # The fused optimiser does not look at shapes: it would read and write beyond the end of a tensor that is too
    # small. So a damaged or foreign checkpoint has to be refused here.
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    reached = {name.partition(".")[0] for name in tensors}
    wanted = {
        f"{number}.{moment}": torch.Size() if moment == "step" else parameter.shape
        for number, parameter in enumerate(parameters)
        for moment in MOMENTS
        if str(number) in reached
    }
    found = {name: value.shape for name, value in tensors.items()}
    if found != wanted or not found:
        name = min((name for name, _ in found.items() ^ wanted.items()), default="all of them")
        raise UserError(f"The checkpoint's moments are not those of this optimiser's parameters: {name} is wrong.")
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, _, moment = name.partition(".")
        # A convolution's weights (four dimensions) are channels-last, and their moments have to lie as they do.
        layout = torch.channels_last if value.ndim == 4 else torch.contiguous_format
        state.setdefault(int(number), {})[moment] = value.contiguous(memory_format=layout)
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
