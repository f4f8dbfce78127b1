"""CPU seconds of a training step: our loop and the plain one of the public code, on the same pairs."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from ident3d.bench.losses import naive_delta
from ident3d.bench.measure import Column, least_cpu_seconds, table
from ident3d.errors import UserError
from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.progress import progress_bar
from ident3d.training.images.run import new_encoder
from ident3d.training.images.settings import Settings, with_defaults
from ident3d.training.images.train import train
from ident3d.training.loop.devices import torch_threads
from ident3d.training.loop.dtype import cpu_has_bf16
from ident3d.training.loop.log import read_log

WARM_UP = 2


@dataclass(frozen=True)
class TrainBench:
    """CPU seconds of one step (the least of several) of the plain loop and of ours, and of making a batch."""

    size: int
    batch: int
    threads: int
    dtype: str
    cpu_has_bf16: bool
    plain: float
    ours: float
    loader: float

    @property
    def faster(self) -> float:
        return self.plain / self.ours

    @property
    def loader_share(self) -> float:
        return self.loader / self.ours

    def table(self) -> str:
        rows = [
            ("plain loop: float32, contiguous, normalised sample by sample", f"{self.plain:.3f}", "1.00"),
            (f"ident3d: {self.dtype}, channels-last", f"{self.ours:.3f}", f"{self.faster:.2f}"),
            ("  of which loading", f"{self.loader:.3f}", f"{100 * self.loader_share:.1f} %"),
        ]
        columns: list[Column] = [("loop", "{0[0]}"), ("CPU s a step", "{0[1]}"), ("times faster", "{0[2]}")]
        bf16 = "has" if self.cpu_has_bf16 else "lacks"
        heading = f"{self.batch} pairs of {self.size}x{self.size}, {self.threads} thread(s); the CPU {bf16} bf16"
        return f"{heading}\n\n{table(rows, columns)}"


def bench_train(
    path: Path | str, *, batch: int = 64, steps: int = 6, threads: int = 1, encoder: str = "resnet18"
) -> TrainBench:
    """Measure both loops on the folder's pairs, on the CPU, at the folder's size."""
    if min(steps, threads) < 1:
        raise UserError("A step is measured on at least one step and one thread.")
    settings = replace(Settings(), batch=batch, steps=steps + WARM_UP, encoder=encoder)
    with torch_threads(threads), progress_bar(3, "measurements") as bar:
        data = PairDataset(path)
        complete = with_defaults(settings, data.source.world, data.source.size, len(data.source))
        loop = plain_loop(data, complete)
        plain = least_cpu_seconds(lambda _: next(loop), steps, WARM_UP)
        bar.update()
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"device": "cpu", "workers": 0, "log_every": 1, "show_progress": False}
            # The real trainer, whose own log holds the CPU seconds of every step.
            run = train(path, settings, out=Path(folder, "run"), allow_same=True, **options)
            # The first steps allocate memory and choose algorithms.
            lines = read_log(run.path)[WARM_UP:]
        bar.update()
        # A small dataset may hold fewer batches than the warm-up takes.
        batches, loads = len(data) // batch, iter(make_loader(data, batch, workers=0))
        warm_up = min(WARM_UP, batches - 1)
        loader = least_cpu_seconds(lambda _: next(loads), min(steps, batches - warm_up), warm_up)
        bar.update()
    ours = min(line["cpu_seconds"] for line in lines)
    return TrainBench(data.source.size, batch, threads, run.dtype, cpu_has_bf16(), plain, ours, loader)


def plain_loop(data: PairDataset, settings: Settings) -> Iterator[float]:
    """Run the usual loop: samples normalised one by one, two passes in float32, all differences at once."""
    model = new_encoder(settings, data.source.world)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.lr)
    mean, std = (torch.tensor(values)[:, None, None] for values in (data.mean, data.std))

    # As public code does it: each image is converted and normalised alone.
    def collate(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        pairs = [[((image.contiguous() / 255) - mean) / std for image in images] for _, images in samples]
        return torch.stack([x for x, _ in pairs]), torch.stack([x_tilde for _, x_tilde in pairs])

    class OneByOne(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, number: int) -> Any:
            return data[number]

    batches: DataLoader[Any] = DataLoader(OneByOne(), settings.batch, shuffle=True, drop_last=True, collate_fn=collate)
    while True:
        for x, x_tilde in batches:
            optimiser.zero_grad()
            loss = naive_delta(model(x), model(x_tilde), 2).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            yield loss.item()
