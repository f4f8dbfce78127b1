"""Steps per second of the theory bench beside a straightforward loop of the public settings, on the same draws."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from tabulate import tabulate
from torch import Tensor

from ident3d.bench.losses import naive_delta, naive_sphere
from ident3d.errors import UserError
from ident3d.memory import keep_memory
from ident3d.progress import progress_bar
from ident3d.training.loop.devices import torch_threads
from ident3d.training.mixing.settings import MixingSettings
from ident3d.training.mixing.train import MixingRun, built, one_step, optimiser_of

CPU = torch.device("cpu")
WARM_UP = 1
Loss = Callable[[Tensor, Tensor], Tensor]


def products(z: Tensor, z_tilde: Tensor) -> Tensor:
    """L_contr by the products of every pair of codes, coordinate by coordinate: B×B×d, as for the differences."""
    positive = (z * z_tilde).sum(1)
    return torch.cat([(z[:, None] * z).sum(2), positive[:, None]], 1).logsumexp(1) - positive


BOX: dict[str, object] = {"cond": "normal", "space": "box"}
SPHERE: dict[str, object] = {"latent_space": "sphere", "cond": "vmf", "space": "sphere"}
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
        rows = [
            (
                name,
                f"{1 / case.plain:.3f}",
                f"{1 / case.ours:.3f}",
                f"{case.plain / case.ours:.1f}",
                f"{case.encoder / case.ours:.0%} / {case.loss / case.ours:.0%}",
                f"{1 / case.bf16:.3f}",
                f"{case.plain / case.bf16:.1f}",
                f"{case.encoder_bf16 / case.bf16:.0%} / {case.loss / case.bf16:.0%}",
            )
            for name, case in self.cases.items()
        ]
        headers = (
            "model", "plain steps/s", "ours", "times", "encoder / loss", "ours, bf16", "times", "encoder / loss",
        )  # fmt: skip
        heading = f"{self.batch} pairs, d = {self.dim}, encoder {self.encoder}, {self.threads} thread(s), CPU time"
        return f"{heading}\n\n" + tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def bench_mixing(
    *, batch: int = 6144, dim: int = 10, encoder: str = "papers", steps: int = 3, threads: int = 1
) -> MixingBench:
    """Measure a step of both loops for every power and the sphere; the plain one holds B×B×d differences in float32.

    At the default batch that takes about 8 GB.
    """
    if min(steps, threads) < 1:
        raise UserError("A step is measured on at least one step and one thread.")
    keep_memory()
    cases = {}
    with torch_threads(threads), progress_bar(len(CASES), "models") as bar:
        for name, (change, loss) in CASES.items():
            settings = MixingSettings(**{"batch": batch, "dim": dim, "encoder": encoder, "steps": 1, **change})  # type: ignore[arg-type]
            cases[name] = measured(settings, loss, steps)
            bar.update()
    return MixingBench(batch, dim, threads, encoder, cases)


def measured(settings: MixingSettings, plain: Loss, steps: int) -> Case:
    """A case's seconds, each on parts of its own."""
    work = built(settings, CPU)
    s = work.settings
    narrow = MixingSettings(**s.as_dict() | {"dtype": "bf16"})
    return Case(
        plain=least(plain_loop(work, plain), steps),
        ours=least(our_loop(settings), steps),
        bf16=least(our_loop(narrow), steps),
        encoder=least(encoder_pass(settings), steps),
        loss=least(loss_pass(settings), steps),
        encoder_bf16=least(encoder_pass(narrow), steps),
    )


def plain_loop(work: MixingRun, loss: Loss) -> Callable[[int], object]:
    """A step as it is usually written: two passes, all differences of all pairs, Adam parameter by parameter."""
    optimiser = torch.optim.Adam(work.encoder.parameters(), lr=work.settings.lr, foreach=False)

    def step(number: int) -> None:
        z, z_tilde = work.sampler.draw(work.settings.batch, torch.Generator().manual_seed(number))
        optimiser.zero_grad()
        value = loss(work.encoder(work.mixing(z)), work.encoder(work.mixing(z_tilde))).mean()
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def our_loop(settings: MixingSettings) -> Callable[[int], object]:
    work = built(settings, CPU)
    optimiser = optimiser_of(work)
    return lambda number: one_step(work, optimiser, number, CPU)


def encoder_pass(settings: MixingSettings) -> Callable[[int], object]:
    """The encoder there and back on both views."""
    work = built(settings, CPU)
    x = work.observed(torch.cat(work.sampler.draw(settings.batch, torch.Generator().manual_seed(0))))
    return lambda _: work.encoded(x).sum().backward()  # type: ignore[no-untyped-call]


def loss_pass(settings: MixingSettings) -> Callable[[int], object]:
    """The loss there and back on codes of both views."""
    work = built(settings, CPU)
    latents = work.sampler.draw(settings.batch, torch.Generator().manual_seed(0))
    codes = [work.encoded(work.observed(z)).detach().requires_grad_() for z in latents]
    return lambda _: work.loss(codes, latents).backward()


def least(step: Callable[[int], object], count: int) -> float:
    """The fewest CPU seconds of `count` steps, after one that warms up."""
    taken = []
    for number in range(WARM_UP + count):
        start = time.process_time()
        step(number)
        taken.append(time.process_time() - start)
    return min(taken[WARM_UP:])
