"""CPU seconds of a training step: our loop and the plain one of the public code, on the same pairs."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from ident3d.bench.losses import naive_delta
from ident3d.bench.measure import Column, least_cpu_seconds, table
from ident3d.errors import UserError
from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.progress import progress_bar
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.run import new_encoder
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop.devices import on_device, torch_threads
from ident3d.training.loop.dtype import autocast, cpu_has_bf16
from ident3d.training.loop.log_file import read_log
from ident3d.training.views.pixels import Pixels
from ident3d.training.views.views import pair_views

WARM_UP = 2


@dataclass(frozen=True)
class TrainBench:
    """CPU seconds of one step, the least of several, of the plain loop and of ours, and of parts of ours.

    `passes` are the encoder's own passes there and back, `loader` makes a batch, `search` are its pairs. `wall` and
    `wall_of_one` are seconds on the clock of our step with all threads and with one.
    """

    size: int
    batch: int
    threads: int
    encoder: str
    dtype: str
    cpu_has_bf16: bool
    plain: float
    ours: float
    passes: float
    loader: float
    search: float
    wall: float
    wall_of_one: float

    @property
    def faster(self) -> float:
        return self.plain / self.ours

    @property
    def loader_share(self) -> float:
        return self.loader / self.ours

    @property
    def rest_share(self) -> float:
        """Return the share of a step that is not the encoder's own passes."""
        return 1 - self.passes / self.ours

    @property
    def speedup(self) -> float:
        return self.wall_of_one / self.wall

    def table(self) -> str:
        rows = [
            ("plain loop: float32, contiguous, normalised sample by sample", f"{self.plain:.4f}", "1.00"),
            (f"ident3d: {self.dtype}, channels-last", f"{self.ours:.4f}", f"{self.faster:.2f}"),
            *(
                (f"  {part}", f"{seconds:.4f}", f"{100 * seconds / self.ours:.1f} % of a step")
                for part, seconds in (
                    ("the encoder's own passes", self.passes),
                    ("pair search", self.search),
                    ("loading of the images", self.loader - self.search),
                    ("views, loss, optimiser, log", self.ours - self.passes - self.loader),
                )
            ),
        ]
        if self.threads > 1:
            rows.append(
                (f"{self.threads} threads against one, on the clock", f"{self.wall:.4f}", f"{self.speedup:.2f}")
            )
        columns: list[Column] = [("loop", "{0[0]}"), ("CPU s a step", "{0[1]}"), ("times faster", "{0[2]}")]
        bf16 = "has" if self.cpu_has_bf16 else "lacks"
        pairs = f"{self.batch} pairs of {self.size}x{self.size}"
        heading = f"{self.encoder}, {pairs}, {self.threads} thread(s); the CPU {bf16} bf16"
        return f"{heading}\n\n{table(rows, columns)}"


def bench_train(
    path: Path | str, *, batch: int = 64, steps: int = 6, threads: int = 1, encoder: str = "resnet18"
) -> TrainBench:
    """Measure both loops on the folder's pairs, on the CPU, at the folder's size."""
    if min(steps, threads) < 1:
        raise UserError("A step is measured on at least one step and one thread.")
    # Where the box starts changes no step, and is neither searched for nor said.
    settings = replace(TrainSettings(), batch=batch, steps=steps + WARM_UP, encoder=encoder, bound=1.0)
    data = PairDataset(path)
    complete = with_defaults(settings, data.source.world, data.source.size, len(data.source))
    with torch_threads(threads), progress_bar(5, "measurements") as bar:
        loop = plain_loop(data, complete)
        plain = least_cpu_seconds(lambda _: next(loop), steps, WARM_UP)
        bar.update()
        dtype, lines = our_steps(path, settings)
        bar.update()
        # The same number format: `auto` might choose another one the second time.
        alone = replace(settings, dtype=dtype)
        with torch_threads(1):
            lines_of_one = our_steps(path, alone)[1] if threads > 1 else lines
        bar.update()
        passes = least_cpu_seconds(encoder_passes(data, replace(complete, dtype=dtype)), steps, WARM_UP)
        bar.update()
        # A small dataset may hold fewer batches than the warm-up takes.
        batches, loads = len(data) // batch, iter(make_loader(data, batch, workers=0))
        warm_up = min(WARM_UP, batches - 1)
        measured = min(steps, batches - warm_up)
        loader = least_cpu_seconds(lambda _: next(loads), measured, warm_up)
        search = least_cpu_seconds(lambda k: data.sampler.pairs(k * batch + np.arange(batch)), measured, warm_up)
        bar.update()
    return TrainBench(
        size=data.source.size,
        batch=batch,
        threads=threads,
        encoder=encoder,
        dtype=dtype,
        cpu_has_bf16=cpu_has_bf16(),
        plain=plain,
        ours=min(line["cpu_seconds"] for line in lines),
        passes=passes,
        loader=loader,
        search=search,
        wall=min(line["seconds"] for line in lines),
        wall_of_one=min(line["seconds"] for line in lines_of_one),
    )


def our_steps(path: Path | str, settings: TrainSettings) -> tuple[str, list[dict[str, Any]]]:
    """Train, and return the number format and the log's line of every step but the first ones."""
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"device": "cpu", "workers": 0, "log_every": 1, "show_progress": False}
        # The real trainer, whose own log holds the seconds of every step.
        run = train(path, settings, out=Path(folder, "run"), allow_same=True, **options)
        # The first steps allocate memory and choose algorithms.
        return run.dtype, read_log(run.path)[WARM_UP:]


def encoder_passes(data: PairDataset, settings: TrainSettings) -> Callable[[int], object]:
    """Return a step that is nothing but the encoder's passes there and back over both views of a batch."""
    here = torch.device("cpu")
    pixels = Pixels(data.mean, data.std, settings.size)
    model = on_device(new_encoder(settings, data.source.world, pixels.channels), here)
    x = torch.cat(pair_views(pixels, data.batch(np.arange(settings.batch)), here)[0])

    def step(_: int) -> None:
        model.zero_grad()
        with autocast(settings.dtype, here):
            codes = model(x)
        codes.sum().backward()

    return step


def plain_loop(data: PairDataset, settings: TrainSettings) -> Iterator[float]:
    """Run the usual loop: samples normalised one by one, two passes in float32, all differences at once."""
    model = new_encoder(settings, data.source.world, len(data.mean))
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.lr)
    mean, std = (torch.tensor(values)[:, None, None] for values in (data.mean, data.std))

    # As public code does it: each image is converted and normalised alone.
    def collate(numbers: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        samples = [data[number] for number in numbers]
        pairs = [[((image.contiguous() / 255) - mean) / std for image in images] for _, images in samples]
        return torch.stack([x for x, _ in pairs]), torch.stack([x_tilde for _, x_tilde in pairs])

    numbers: Any = range(len(data))
    batches: DataLoader[Any] = DataLoader(numbers, settings.batch, shuffle=True, drop_last=True, collate_fn=collate)
    while True:
        for x, x_tilde in batches:
            optimiser.zero_grad()
            loss = naive_delta(model(x), model(x_tilde), 2).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            yield loss.item()
