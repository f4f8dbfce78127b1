"""One of several gloo processes: python one_rank.py RANK WORLD FOLDER. Writes the gradients that it ends up with."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ident3d.training.loop.accumulation import accumulated_backward
from ident3d.training.losses.alignment import alignment_uniformity
from ident3d.training.losses.aninfonce import Precision, an_info_nce
from ident3d.training.losses.contrastive import delta_contrastive, info_nce, two_view_info_nce
from ident3d.training.losses.gather import average_gradients, first_row, gather

JOINT, WIDTH, DIM = 12, 6, 4
PRECISION = Precision(DIM, generator=torch.Generator().manual_seed(1)).double()


def anisotropic(z: Tensor, z_tilde: Tensor) -> Tensor:
    return an_info_nce(z, z_tilde, PRECISION(), (gather(z), gather(z_tilde)), first_row=first_row(z))


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "info_nce": lambda z, z_tilde: info_nce(z, z_tilde, gather(z), normalize=True),
    "delta_1": lambda z, z_tilde: delta_contrastive(z, z_tilde, gather(z), p=1),
    "delta_2": lambda z, z_tilde: delta_contrastive(z, z_tilde, gather(z), p=2),
    "delta_others": lambda z, z_tilde: delta_contrastive(z, z_tilde, gather(z), first_row=first_row(z)),
    "alignment_uniformity": lambda z, z_tilde: alignment_uniformity(z, z_tilde, gather(z)),
    "two_views": lambda z, z_tilde: two_view_info_nce(
        z, z_tilde, (gather(z), gather(z_tilde)), first_row=first_row(z), tau=0.5
    ),
    "anisotropic": anisotropic,
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, DIM)).double()


def joint_views() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(JOINT, WIDTH, generator=generator, dtype=torch.float64)
    return x, x + 0.1 * torch.randn(JOINT, WIDTH, generator=generator, dtype=torch.float64)


def gradients(rank: int, world: int, chunk: int) -> dict[str, np.ndarray]:
    """Loss and gradients of every loss on this rank's share of the joint batch, `chunk` inputs at a time."""
    share = slice(rank * JOINT // world, (rank + 1) * JOINT // world)
    inputs = torch.cat([view[share] for view in joint_views()])
    found = {}
    for name, loss in LOSSES.items():
        model = network()
        ranked = DistributedDataParallel(model) if world > 1 else model
        PRECISION.zero_grad()
        value, _ = accumulated_backward(ranked, inputs, lambda codes, loss=loss: loss(*codes.chunk(2)).mean(), chunk)
        found[f"{name} loss"] = value.numpy()
        if name == "anisotropic":
            average_gradients(PRECISION.parameters())
            found[f"{name} precision"] = PRECISION.free.grad.numpy()
        for key, parameter in model.named_parameters():
            found[f"{name} {key}"] = parameter.grad.numpy()
    return found


if __name__ == "__main__":
    rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=world)
    for chunk in (JOINT * 2, 5):
        np.savez(folder / f"rank{rank}_chunk{chunk}.npz", **gradients(rank, world, chunk))
    dist.destroy_process_group()
