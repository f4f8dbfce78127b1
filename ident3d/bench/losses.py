"""Time and peak memory of the fused losses next to the plain form that holds all B×B×d differences at once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ident3d.bench.measure import Column, in_own_process, least_cpu_seconds, table
from ident3d.bench.memory import MIB, high_water_bytes, resident_bytes
from ident3d.errors import UserError
from ident3d.progress import progress_bar
from ident3d.training.loop.devices import torch_threads
from ident3d.training.losses.contrastive import delta_contrastive, info_nce

Loss = Callable[[Tensor, Tensor], Tensor]


def naive_delta(z: Tensor, z_tilde: Tensor, p: int) -> Tensor:
    """Return L_δ-contr as it is written down, with every difference of every pair of codes."""
    differences = z[:, None] - z
    negative = -(differences.square() if p == 2 else differences.abs().pow(p)).sum(2)
    positive = -(z - z_tilde).abs().pow(p).sum(1)
    return torch.cat([negative, positive[:, None]], 1).logsumexp(1) - positive


def naive_sphere(z: Tensor, z_tilde: Tensor) -> Tensor:
    """Return L_contr by one B×B matrix product, the usual form."""
    positive = (z * z_tilde).sum(1)
    return torch.cat([z @ z.T, positive[:, None]], 1).logsumexp(1) - positive


# name -> plain form, ours
LOSSES: dict[str, tuple[Loss, Loss]] = {
    f"L_δ, p = {p}": (partial(naive_delta, p=p), partial(delta_contrastive, p=p)) for p in (1, 2, 3)
}
LOSSES["InfoNCE"] = (naive_sphere, info_nce)


@dataclass(frozen=True)
class Cost:
    """One form of a loss: CPU seconds of loss and gradient, how far they raise the resident set, and the values."""

    seconds: float
    peak_mib: float
    loss: float
    gradient_norm: float


@dataclass(frozen=True)
class LossBench:
    """The cost of the plain form and of ours, for each loss."""

    pairs: int
    dim: int
    threads: int
    costs: dict[str, tuple[Cost, Cost]]

    def table(self) -> str:
        columns: list[Column] = [
            ("loss", "{0[0]}"),
            ("plain CPU s", "{0[1].seconds:.3f}"),
            ("ours CPU s", "{0[2].seconds:.3f}"),
            ("times faster", lambda row: f"{row[1].seconds / row[2].seconds:.1f}"),
            ("plain MiB", "{0[1].peak_mib:.0f}"),
            ("ours MiB", "{0[2].peak_mib:.0f}"),
            ("times less", lambda row: f"{row[1].peak_mib / row[2].peak_mib:.0f}"),
        ]
        heading = f"{self.pairs} pairs, d = {self.dim}, float32, loss and gradient, {self.threads} thread(s)"
        return f"{heading}\n\n{table([(name, *forms) for name, forms in self.costs.items()], columns)}"


def bench_losses(*, pairs: int = 4096, dim: int = 10, threads: int = 1, repeats: int = 3) -> LossBench:
    """Measure loss and gradient of `pairs` pairs, each form in a separate process, the fastest of `repeats`."""
    if min(pairs, dim, threads, repeats) < 1:
        raise UserError("A loss is measured on at least one pair, dimension, thread and repeat.")
    costs: dict[str, tuple[Cost, Cost]] = {}
    with progress_bar(len(LOSSES), "losses") as bar:
        for name in LOSSES:
            plain, ours = (
                in_own_process(cost_of, form, name == "InfoNCE", pairs, dim, threads, repeats) for form in LOSSES[name]
            )
            costs[name] = plain, ours
            bar.update()
    return LossBench(pairs, dim, threads, costs)


def cost_of(loss: Loss, on_sphere: bool, pairs: int, dim: int, threads: int = 1, repeats: int = 1) -> Cost:
    """Measure one form in this process: the fastest of `repeats`."""
    generator = torch.Generator().manual_seed(0)
    # Pairs as close as a trained encoder makes them.
    z = torch.randn(pairs, dim, generator=generator)
    z_tilde = z + 0.1 * torch.randn(pairs, dim, generator=generator)
    # InfoNCE is defined on unit vectors.
    if on_sphere:
        z, z_tilde = (torch.nn.functional.normalize(x, dim=1) for x in (z, z_tilde))

    def step(n: int) -> tuple[float, Tensor]:
        leaf = z[:n].clone().requires_grad_()
        value = loss(leaf, z_tilde[:n]).mean()
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.item(), gradient

    with torch_threads(threads):
        # What is loaded at first use is no part of the loss.
        step(min(pairs, 16))
        before = resident_bytes()
        seconds = least_cpu_seconds(lambda _: step(pairs), repeats)
        # Taken before the last step, whose gradient is only compared.
        peak = high_water_bytes()
        value, gradient = step(pairs)
    return Cost(seconds, max(peak - before, 1) / MIB, value, gradient.norm().item())
