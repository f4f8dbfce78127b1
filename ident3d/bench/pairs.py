"""How many pairs a second the rules grid and time give, against a plain loop that makes one pair at a time.

Images are packed and in memory, torch has one thread, and every rule runs in a process of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.bench.measure import Shown, in_own_process, least_cpu_seconds, table
from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.folders.packed import matching_file, pack
from ident3d.loaders.pairs.grid import GridSampler
from ident3d.loaders.pairs.time import TimeSampler

# Read at once before the measurement, so that all images are in memory and were checked once.
READ_AT_ONCE: Final = 1024
MAX_LAG: Final = 5


@dataclass(frozen=True)
class PairRate:
    """Pairs a CPU-second of one rule: by batch, through the loader, by the sampler alone, and by the plain loop."""

    rule: Annotated[str, Shown("rule")]
    plain: Annotated[float, Shown("plain loop, pairs/CPU-s", ",.0f")]
    loader: Annotated[float, Shown("loader, pairs/CPU-s", ",.0f")]
    faster: Annotated[float, Shown("times the plain loop", ",.0f")]
    sampler: Annotated[float, Shown("sampler alone", ",.0f")]


@dataclass(frozen=True)
class PairBench:
    """The rates of all rules that the images allow."""

    images: int
    size: int
    batch: int
    rates: tuple[PairRate, ...]

    def table(self) -> str:
        where = (
            f"{self.batch} pairs a batch, {self.images:,} packed images of {self.size}x{self.size} in memory, one core"
        )
        return f"{where}\n\n{table(self.rates)}"


def bench_pairs(path: Path | str, *, batch: int = 256, batches: int = 50) -> PairBench:
    """Measure the rules grid and time, as far as the images have a full grid or sequences.

    The folder is packed if it is not yet. The fastest batch of each counts.
    """
    if batch < 1 or batches < 1:
        raise UserError("Pairs are measured on one batch at least, of one pair at least.")
    data = ImageDataset(path)
    rules: list[dict[str, Any]] = []
    if "sequence" in data.columns:
        rules.append({"rule": "time", "max_lag": MAX_LAG})
    try:
        GridSampler(data.all_latents()[0], data.world)
        rules += [{"rule": "grid", "grid": grid} for grid in ("lap", "uni")]
    except UserError as error:
        if not rules:
            raise UserError(f"{path} has no sequences, and no grid either. {error}") from None
    if not matching_file(data.parts[0].folder):
        pack(data.parts[0].path)
    rates = tuple(in_own_process(measure_rule, str(path), rule, batch, batches) for rule in rules)
    return PairBench(len(data), data.size, batch, rates)


def measure_rule(path: str, rule: dict[str, Any], batch: int, batches: int) -> PairRate:
    """Measure one rule in this process."""
    import torch

    from ident3d.loaders.batches.loader import make_loader

    torch.set_num_threads(1)
    pairs = PairDataset(path, packed=True, length=(batches + 2) * batch, **rule)
    for start in range(0, len(pairs.source), READ_AT_ONCE):
        pairs.source.images(range(start, min(start + READ_AT_ONCE, len(pairs.source))))
    loader = iter(make_loader(pairs, batch, workers=0))
    whole = least_cpu_seconds(lambda _: next(loader), batches, 1)
    alone = least_cpu_seconds(lambda k: pairs.sampler.pairs(np.arange(k * batch, (k + 1) * batch)), batches, 1)
    plain = plain_loop(pairs)
    # A batch of the plain loop takes as long as many of ours.
    slow = least_cpu_seconds(lambda _: as_batch([next(plain) for _ in range(batch)]), max(1, batches // 10), 1)
    name = " ".join(map(str, pairs.sampler.settings[:2]))
    return PairRate(name, batch / slow, batch / whole, slow / whole, batch / alone)


def as_batch(items: list[tuple[Any, ...]]) -> list[Any]:
    """Return the items' tensors stacked, as a DataLoader does by default."""
    import torch

    return [torch.stack(tensors) for tensors in zip(*items, strict=True)]


def plain_loop(pairs: PairDataset) -> Iterator[tuple[Any, ...]]:
    """Yield pairs one by one from an array of all images, drawn as a data set's `__getitem__` usually does."""
    import torch

    images = np.memmap(str(pairs.source.parts[0].packed), np.uint8, "r", shape=(len(pairs.source), *pairs.source.shape))
    z, rng, sampler = pairs.source.all_latents()[0], np.random.default_rng(0), pairs.sampler
    if isinstance(sampler, TimeSampler):
        choose = partial(later_frame, sampler, rng)
    else:
        assert isinstance(sampler, GridSampler)
        choose = partial(changed_cell, sampler, rng)
    while True:
        numbers = choose()
        latents, pixels = ([torch.from_numpy(np.array(rows[k])) for k in numbers] for rows in (z, images))
        yield (*latents, *pixels)


def later_frame(sampler: TimeSampler, rng: np.random.Generator) -> tuple[int, int]:
    start = rng.integers(len(sampler.starts))
    place = min(sampler.starts[start] + rng.integers(1, sampler.max_lag + 1), sampler.ends[start])
    return int(sampler.order[sampler.starts[start]]), int(sampler.order[place])


def changed_cell(sampler: GridSampler, rng: np.random.Generator) -> tuple[int, int]:
    anchor, sizes = int(rng.integers(len(sampler.latents))), sampler.sizes
    old = np.array(np.unravel_index(anchor, sizes))
    if sampler.grid == "uni":
        new = old.copy()
        for k in rng.choice(len(sizes), rng.integers(1, len(sizes)), replace=False):
            new[k] = rng.choice(np.delete(np.arange(sizes[k]), old[k]))
    else:
        new = np.array([rng.choice(n, p=weights(n, i)) for n, i in zip(sizes, old, strict=True)])
        new[~sampler.ordered] = old[~sampler.ordered]
        if (new == old).all():
            k = rng.choice(np.flatnonzero(sampler.ordered))
            p = weights(sizes[k], old[k]) * (np.arange(sizes[k]) != old[k])
            new[k] = rng.choice(sizes[k], p=p / p.sum())
    return anchor, int(new @ sampler.strides)


def weights(n: int, i: int) -> NDArray[np.float64]:
    """Return the probabilities of lap around value i of n at a rate of 1."""
    p = np.exp(-np.abs(np.arange(n) - i) / np.log(n))
    return np.asarray(p / p.sum())
