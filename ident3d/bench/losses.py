"""Time and peak memory of the fused losses beside the plain form that holds all B×B×d differences at once."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from tabulate import tabulate
from torch import Tensor

from ident3d.errors import UserError
from ident3d.progress import progress_bar
from ident3d.training.losses.contrastive import delta_contrastive, info_nce

MIB = 2**20
Loss = Callable[[Tensor, Tensor], Tensor]


def naive_delta(z: Tensor, z_tilde: Tensor, p: int) -> Tensor:
    """L_δ-contr as it is written down: every difference of every pair of codes."""
    differences = z[:, None] - z
    negative = -(differences.square() if p == 2 else differences.abs().pow(p)).sum(2)
    positive = -(z - z_tilde).abs().pow(p).sum(1)
    return torch.cat([negative, positive[:, None]], 1).logsumexp(1) - positive


def naive_sphere(z: Tensor, z_tilde: Tensor) -> Tensor:
    """L_contr by one B×B matrix product, the form that everyone writes."""
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
    """Per loss the plain form's cost and ours."""

    pairs: int
    dim: int
    threads: int
    costs: dict[str, tuple[Cost, Cost]]

    def table(self) -> str:
        rows = [
            (
                name,
                f"{plain.seconds:.3f}",
                f"{ours.seconds:.3f}",
                f"{plain.seconds / ours.seconds:.1f}",
                f"{plain.peak_mib:.0f}",
                f"{ours.peak_mib:.0f}",
                f"{plain.peak_mib / ours.peak_mib:.0f}",
            )
            for name, (plain, ours) in self.costs.items()
        ]
        headers = ("loss", "plain CPU s", "ours CPU s", "times faster", "plain MiB", "ours MiB", "times less")
        heading = f"{self.pairs} pairs, d = {self.dim}, float32, loss and gradient, {self.threads} thread(s)\n\n"
        return heading + tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def bench_losses(*, pairs: int = 4096, dim: int = 10, threads: int = 1, repeats: int = 3) -> LossBench:
    """Measure loss and gradient of `pairs` pairs, each form in a process of its own, the fastest of `repeats`."""
    if min(pairs, dim, threads, repeats) < 1:
        raise UserError("A loss is measured on at least one pair, dimension, thread and repeat.")
    costs: dict[str, tuple[Cost, Cost]] = {}
    with progress_bar(2 * len(LOSSES), "measurements") as bar:
        for name in LOSSES:
            forms = []
            for form in (0, 1):
                forms.append(measured_apart(name, form, pairs, dim, threads, repeats))
                bar.update()
            costs[name] = (forms[0], forms[1])
    return LossBench(pairs, dim, threads, costs)


def measured_apart(name: str, form: int, *numbers: int) -> Cost:
    """`measure` in a new process: the high-water mark of memory never falls within one."""
    arguments = json.dumps([name, form, *numbers])
    code = "import sys, json; from ident3d.bench import losses; losses.main(*json.loads(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}, out of memory perhaps"]
        raise UserError(f"{name} could not be measured: {reason[0]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def main(name: str, form: int, pairs: int, dim: int, threads: int, repeats: int) -> None:
    """Print one form's cost as JSON."""
    torch.set_num_threads(threads)
    print(json.dumps(asdict(measure(LOSSES[name][form], name == "InfoNCE", pairs, dim, repeats))))


def measure(loss: Loss, on_sphere: bool, pairs: int, dim: int, repeats: int) -> Cost:
    """Cost of one form in this process."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(pairs, dim, generator=generator)
    z_tilde = z + 0.1 * torch.randn(pairs, dim, generator=generator)
    if on_sphere:
        z, z_tilde = (torch.nn.functional.normalize(x, dim=1) for x in (z, z_tilde))

    def step(n: int) -> tuple[float, Tensor]:
        leaf = z[:n].clone().requires_grad_()
        value = loss(leaf, z_tilde[:n]).mean()
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.item(), gradient

    step(min(pairs, 16))  # what is loaded at first use is no part of the loss
    before = resident()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        value, gradient = step(pairs)
        seconds.append(time.process_time() - start)
    return Cost(min(seconds), max(high_water() - before, 1) / MIB, value, gradient.norm().item())


def resident() -> int:
    """Bytes of this process in memory now."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else high_water()


def high_water() -> int:
    """Most bytes of this process that ever were in memory."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent had before it started this process
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
