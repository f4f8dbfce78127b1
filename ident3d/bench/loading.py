"""One way of loading pairs, measured in the process that it has to itself."""

import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.bench.memory import MB, Peak, together_mb
from ident3d.bench.processes import cpu_seconds
from ident3d.loaders.datasets.image_dataset import ImageDataset

# batches that each worker fetches ahead
PREFETCH = 1
MEMORY = """\
Memory is that of the process and its workers, each page counted once however many share it (proportional set sizes,
added up), above what they take when the dataset is open and batches of one pair were loaded. The consumer drops a batch
before it asks for the next. The goal is that of 2 batches, and of one more for each that workers fetch ahead."""


@dataclass(frozen=True)
class WayToLoad:
    """One way to load: how its batches are made and by how many workers."""

    name: str
    kind: str  # png, shards or packed
    normalised: bool
    workers: int
    goal: float | None  # times the baseline's pairs a second


@dataclass(frozen=True)
class Rate:
    """What one variant reached, by its fastest batch and on average.

    CPU seconds and memory, in MB above the idle process, are of all processes together.
    """

    variant: str
    workers: int
    pairs_per_second: float
    pairs_per_cpu_second: float
    mean_pairs_per_cpu_second: float
    peak_mb: float
    allowed_mb: float
    goal: float | None


def measure_way(path: str, pictures: str, variant: WayToLoad, batch: int, batches: int) -> Rate:
    """Measure one variant in this process: first its memory, which also warms it up, then its time."""
    import torch

    torch.set_num_threads(1)
    source = batches_of(path, Path(pictures), variant, batch)
    # After this everything is open and one pair was loaded.
    next(source)
    idle = together_mb()
    with Peak() as peak:
        # So many that each worker has touched all of the shared memory.
        for _ in range(batches + 6 * variant.workers):
            size = sum(tensor.nbytes for tensor in next(source))
    steps = []
    # Batches are made in worker processes too, so CPU time is read from outside for all of them.
    before, started = cpu_seconds([os.getpid()]), time.perf_counter()
    for _ in range(batches):
        start = time.process_time()
        next(source)
        steps.append(time.process_time() - start)
    clock, spent = time.perf_counter() - started, cpu_seconds([os.getpid()]) - before
    # Ends the workers.
    source.close()
    mean = max(spent / batches, 1e-9)
    # With workers a batch is made in other processes, before it is asked for: only the mean means something.
    each = mean if variant.workers else max(min(steps), 1e-9)
    allowed = (variant.workers * PREFETCH + 2) * size / MB
    rate = batches * batch / clock
    used = max(0.0, peak.mb - idle)
    return Rate(variant.name, variant.workers, rate, batch / each, batch / mean, used, allowed, variant.goal)


def batches_of(path: str, pictures: Path, variant: WayToLoad, batch: int) -> Generator[list[Any], None, None]:
    """Yield an empty batch once everything is open, then batches [x, x̃] without end."""
    if variant.kind == "png":
        yield from as_the_papers_do(path, pictures, batch)
    import torch

    from ident3d.loaders.batches.loader import make_loader
    from ident3d.loaders.datasets.pair_dataset import PairDataset
    from ident3d.training.views.pixels import Pixels

    data = PairDataset(path, packed=variant.kind == "packed", length=100)
    # From the first batch on it knows where the images lie.
    data.batch(np.arange(200))
    small: Any = iter(make_loader(data, 1, workers=variant.workers))
    next(small)
    yield []
    small.close()
    del small
    # No measurement reaches the end of an epoch, where the workers would start again.
    data.length = 10**6
    loader = make_loader(data, batch, workers=variant.workers, prefetch=PREFETCH)
    pixels, cpu = Pixels(data.mean, data.std), torch.device("cpu")
    while True:
        for _, images in loader:
            yield [pixels.normalise(pixels.unit(x, cpu)) if variant.normalised else x for x in images]
            del images


def as_the_papers_do(path: str, pictures: Path, batch: int) -> Iterator[list[Any]]:
    """Yield batches made sample by sample: two draws, each searched alone, and two PNG files."""
    import faiss
    import torch
    from PIL import Image

    from ident3d.latents.world_conditional import world_conditional

    # One thread, as for all variants.
    faiss.omp_set_num_threads(1)
    data = ImageDataset(path, packed=False)
    latents, _ = data.all_latents()
    conditional = world_conditional(data.world, "normal")
    index = faiss.IndexFlatL2(latents.shape[1])
    index.add(latents)
    rng = np.random.default_rng(0)
    mean, std = (torch.tensor(v)[:, None, None] for v in (data.mean, data.std))

    def picture(number: int) -> Any:
        with Image.open(pictures / f"{number}.png") as file:
            pixels = torch.from_numpy(np.array(file.convert("RGB")))
        return (pixels.permute(2, 0, 1).contiguous().float() / 255 - mean) / std

    def nearest(query: Any, other_than: int) -> int:
        found = index.search(np.asarray(query, np.float32)[None], 2)[1][0]
        return int(found[0] if found[0] != other_than else found[1])

    picture(nearest(latents[0], 0))
    yield []
    while True:
        both: tuple[list[Any], list[Any]] = [], []
        for _ in range(batch):
            anchor = nearest(rng.uniform(-1, 1, latents.shape[1]), -1)
            drawn = conditional.sample(latents[anchor : anchor + 1].astype(np.float64), rng.random)[0]
            both[0].append(picture(anchor))
            both[1].append(picture(nearest(drawn, anchor)))
        yield [torch.stack(images) for images in both]
