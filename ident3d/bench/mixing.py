"""Steps per second of `ident3d mixing` next to a straightforward loop of the public settings, on the same draws."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ident3d.bench.losses import Loss, naive_delta, naive_sphere
from ident3d.bench.measure import Column, least_cpu_seconds, table
from ident3d.errors import UserError
from ident3d.memory import keep_memory
from ident3d.progress import progress_bar
from ident3d.training.loop.devices import torch_threads
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.mixing.train import MixingRun, build, one_step, optimiser_of

CPU = torch.device("cpu")
WARM_UP = 1


def products(z: Tensor, z_tilde: Tensor) -> Tensor:
    """Return L_contr from products coordinate by coordinate: B×B×d of them, as for the differences."""
    positive = (z * z_tilde).sum(1)
    return torch.cat([(z[:, None] * z).sum(2), positive[:, None]], 1).logsumexp(1) - positive


# The plain loop keeps each anchor among its own negatives, as the public code does.
BOX: dict[str, object] = {"cond": "normal", "space": "box", "negatives": "batch"}
SPHERE: dict[str, object] = {"latent_space": "sphere", "cond": "vmf", "space": "sphere", "negatives": "batch"}
# name → what it changes in the public settings, and the plain loss
CASES: dict[str, tuple[dict[str, object], Loss]] = {
    "box, p = 1": (BOX | {"model_p": 1.0}, partial(naive_delta, p=1)),
    "box, p = 2": (BOX | {"model_p": 2.0}, partial(naive_delta, p=2)),
    "box, p = 3": (BOX | {"model_p": 3.0}, partial(naive_delta, p=3)),
    "sphere": (SPHERE, products),
    "sphere, plain as a matrix product": (SPHERE, naive_sphere),
}


@dataclass(frozen=True)
class Case:
    """CPU seconds of a step, the least of several: the plain loop, ours in float32 and bf16, and parts of ours."""

    plain: float
    ours: float
    bf16: float
    encoder: float
    loss: float
    encoder_bf16: float


@dataclass(frozen=True)
class MixingBench:
    batch: int
    dim: int
    threads: int
    encoder: str
    cases: dict[str, Case]

    def table(self) -> str:
        columns: list[Column] = [
            ("model", "{0[0]}"),
            ("plain steps/s", lambda row: f"{1 / row[1].plain:.3f}"),
            ("ours", lambda row: f"{1 / row[1].ours:.3f}"),
            ("times", lambda row: f"{row[1].plain / row[1].ours:.1f}"),
            ("encoder / loss", lambda row: f"{row[1].encoder / row[1].ours:.0%} / {row[1].loss / row[1].ours:.0%}"),
            ("ours, bf16", lambda row: f"{1 / row[1].bf16:.3f}"),
            ("times", lambda row: f"{row[1].plain / row[1].bf16:.1f}"),
            ("encoder / loss", lambda r: f"{r[1].encoder_bf16 / r[1].bf16:.0%} / {r[1].loss / r[1].bf16:.0%}"),
        ]
        heading = f"{self.batch} pairs, d = {self.dim}, encoder {self.encoder}, {self.threads} thread(s), CPU time"
        return f"{heading}\n\n{table(self.cases.items(), columns)}"


def bench_mixing(
    *, batch: int = 6144, dim: int = 10, encoder: str = "papers", steps: int = 3, threads: int = 1
) -> MixingBench:
    """Measure a step of both loops for every power and the sphere; the plain one holds B×B×d differences in float32.

    At the default batch that takes about 8 GB.
    """
    if min(steps, threads) < 1:
        raise UserError("A step is measured on at least one step and one thread.")
    # Without this the kernel clears the pages of the largest tensors again in every step, in both loops.
    keep_memory()
    cases = {}
    with torch_threads(threads), progress_bar(len(CASES), "models") as bar:
        for name, (change, loss) in CASES.items():
            settings = MixingSettings(**{"batch": batch, "dim": dim, "encoder": encoder, "steps": 1, **change})  # type: ignore[arg-type]
            cases[name] = measure_case(settings, loss, steps)
            bar.update()
    return MixingBench(batch, dim, threads, encoder, cases)


def measure_case(settings: MixingSettings, plain: Loss, steps: int) -> Case:
    """Measure a case; every part is built anew, so that none has warmed another up."""
    work = build(settings, CPU)
    s = work.settings
    # The same run with a bf16 encoder.
    narrow = MixingSettings(**s.as_dict() | {"dtype": "bf16"})
    return Case(
        plain=least_cpu_seconds(plain_loop(work, plain), steps, WARM_UP),
        ours=least_cpu_seconds(our_loop(settings), steps, WARM_UP),
        bf16=least_cpu_seconds(our_loop(narrow), steps, WARM_UP),
        encoder=least_cpu_seconds(encoder_pass(settings), steps, WARM_UP),
        loss=least_cpu_seconds(loss_pass(settings), steps, WARM_UP),
        encoder_bf16=least_cpu_seconds(encoder_pass(narrow), steps, WARM_UP),
    )


def plain_loop(work: MixingRun, loss: Loss) -> Callable[[int], object]:
    """Return a step as it is usually written: two passes, all differences, Adam parameter by parameter."""
    optimiser = torch.optim.Adam(work.encoder.parameters(), lr=work.settings.lr, foreach=False)

    def step(number: int) -> None:
        z, z_tilde = work.sampler.draw(work.settings.batch, torch.Generator().manual_seed(number))
        optimiser.zero_grad()
        value = loss(work.encoder(work.mixing(z)), work.encoder(work.mixing(z_tilde))).mean()
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def our_loop(settings: MixingSettings) -> Callable[[int], object]:
    work = build(settings, CPU)
    optimiser = optimiser_of(work)
    return lambda number: one_step(work, optimiser, number, CPU)


def encoder_pass(settings: MixingSettings) -> Callable[[int], object]:
    """Return a step of the encoder alone, there and back on both views."""
    work = build(settings, CPU)
    # Mixing is left out: both loops do it, and it has no gradient.
    x = work.observed(torch.cat(work.sampler.draw(settings.batch, torch.Generator().manual_seed(0))))
    return lambda _: work.encoded(x).sum().backward()  # type: ignore[no-untyped-call]


def loss_pass(settings: MixingSettings) -> Callable[[int], object]:
    """Return a step of the loss alone, there and back on codes of both views."""
    work = build(settings, CPU)
    latents = work.sampler.draw(settings.batch, torch.Generator().manual_seed(0))
    codes = [work.encoded(work.observed(z)).detach().requires_grad_() for z in latents]
    return lambda _: work.loss(codes, latents).backward()
