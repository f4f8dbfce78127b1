"""Devices, threads and ranks: what computes, and whether this process is one of several under torchrun."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from ident3d.errors import UserError
from ident3d.machine import cache_folder, cpu_model, installed_versions

PACKAGES = ("ident3d", "torch", "numpy", "kornia", "faiss-cpu", "safetensors", "scikit-learn")

# torch's compiler makes its cache when an optimiser is made, and loads code from it. By default that is a fixed name in
# the temporary folder, which may belong to another user.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "torchinductor"))


@dataclass(frozen=True)
class Rank:
    """Where this process computes, and which of how many ranks it is."""

    device: torch.device
    rank: int = 0
    world_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this rank writes files and messages."""
        return self.rank == 0


def device_of(name: str, local_rank: int = 0) -> torch.device:
    """Return the device named cpu, cuda, cuda:1 or mps; "auto" is the first GPU that torch can use, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"There is no device {name!r}; take auto, cpu, cuda, or cuda:1 and so on.") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError("torch finds no CUDA GPU here; take --device auto or cpu.")
        device = torch.device("cuda", local_rank if device.index is None else device.index)
        if device.index >= torch.cuda.device_count():
            raise UserError(f"There is no GPU {device}; this machine has {torch.cuda.device_count()}.")
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError("torch finds no Apple GPU here; take --device auto or cpu.")
    elif device.type not in ("cpu", "mps"):
        raise UserError(f"ident3d trains on cpu, cuda or mps, not on {device.type}.")
    return device


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Give torch so many threads, and afterwards as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


Model = TypeVar("Model", bound=nn.Module)


def on_device(model: Model, device: torch.device) -> Model:
    """Return the model on a device, its weights channels-last as the images are."""
    return model.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


@contextmanager
def join_ranks(device: str) -> Iterator[Rank]:
    """Give this process's rank. Under torchrun, join the group of ranks, and leave it at the end."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    # Some clusters set WORLD_SIZE for every process. Without its companions, torch would wait for ranks without end.
    if world_size > 1 and any(name not in os.environ for name in ("RANK", "MASTER_ADDR", "MASTER_PORT")):
        raise UserError(
            f"WORLD_SIZE is {world_size}, but this is no rank: start ranks with torchrun, or unset WORLD_SIZE."
        )
    chosen = device_of(device, int(os.environ.get("LOCAL_RANK", "0")))
    if world_size == 1:
        yield Rank(chosen)
        return
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    # A caller that has joined the group already keeps it.
    joined = not dist.is_initialized()
    if joined:
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Rank(chosen, dist.get_rank(), world_size)
    finally:
        if joined:
            dist.destroy_process_group()


def agree(choice: int, device: torch.device) -> int:
    """Return the first rank's choice, on every rank."""
    if not (dist.is_available() and dist.is_initialized()):
        return choice
    shared = torch.tensor([choice], device=device)
    dist.broadcast(shared, 0)
    return int(shared)


def rank() -> int:
    """Return this process's number under torchrun, 0 without it."""
    # From the environment, because it is asked before and after the group of ranks exists.
    return int(os.environ.get("RANK", "0")) if os.environ.get("WORLD_SIZE", "1") != "1" else 0


def circumstances(device: torch.device) -> dict[str, Any]:
    """Return when, where, and with which versions a run was made."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "cpu": cpu_model(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        "versions": installed_versions(PACKAGES),
    }
