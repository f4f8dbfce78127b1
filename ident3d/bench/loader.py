"""How fast pairs come from disk, against one PNG and two single searches at a time, as the papers' code does.

Every variant runs in a process of its own, torch on one thread. Ratios are of pairs a CPU-second, which other work on
the machine does not change; in one process the fastest batch counts.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tabulate import tabulate

from ident3d.bench.opening import Opening, measure_opening
from ident3d.bench.search import SearchCost, measure_searches
from ident3d.errors import UserError
from ident3d.loaders.images import ImageDataset
from ident3d.loaders.pack import matching_file, pack

MB = 1e6
PREFETCH = 2


@dataclass(frozen=True)
class Variant:
    """One way to load: how its batches are made and by how many workers."""

    name: str
    kind: str  # png, shards or packed
    normalised: bool
    workers: int
    goal: float | None  # times the baseline's pairs a second


VARIANTS = (
    Variant("PNG + 2 single searches, float", "png", True, 0, None),
    Variant("shards, uint8", "shards", False, 0, 8.0),
    Variant("packed, uint8", "packed", False, 0, 30.0),
    Variant("shards, float", "shards", True, 0, 5.0),
    Variant("packed, float", "packed", True, 0, 8.0),
    Variant("shards, uint8, 2 workers", "shards", False, 2, None),
)


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


@dataclass(frozen=True)
class LoaderBench:
    """All figures of one run; the first rate is the baseline."""

    images: int
    size: int
    batch: int
    rates: tuple[Rate, ...]
    searches: tuple[SearchCost, ...]
    openings: tuple[Opening, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        base = self.rates[0]
        rows = []
        for rate in self.rates:
            ratio = f"{rate.pairs_per_cpu_second / base.pairs_per_cpu_second:.1f}"
            goal = f" (goal {rate.goal:g})" if rate.goal else ""
            rows.append(
                (
                    rate.variant,
                    f"{rate.pairs_per_second:,.0f}",
                    f"{rate.pairs_per_cpu_second:,.0f}",
                    ratio + goal,
                    f"{rate.peak_mb:,.0f}" + ("" if rate is base else f" (goal {rate.allowed_mb:,.0f})"),
                )
            )
        headers = ("variant", "pairs/s", "pairs/CPU-s", "times baseline", "peak MB above idle")
        parts = [
            f"{self.batch} pairs a batch, {self.images:,} images of {self.size}x{self.size}, "
            "all in the page cache: no figure includes a disk",
            tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True),
        ]
        none, two = (next(r for r in self.rates if r.variant == v.name) for v in (VARIANTS[1], VARIANTS[5]))
        clock = two.pairs_per_second / none.pairs_per_second
        free = 2 * two.mean_pairs_per_cpu_second / none.mean_pairs_per_cpu_second
        parts.append(
            f"2 workers against none, from shards: {clock:.2f} by the clock; two cores with nothing else to do allow "
            f"{free:.2f} (goal 1.4)"
        )
        parts += [SearchCost.table(self.searches)] if self.searches else []
        parts += [Opening.table(self.openings)] if self.openings else []
        return "\n\n".join(parts)


def bench_loader(
    path: Path | str,
    *,
    batch: int = 256,
    batches: int = 8,
    search_images: int = 250_000,
    opening_images: int = 250_000,
) -> LoaderBench:
    """Measure every variant on a finished dataset, which is packed if it is not yet.

    `search_images` latents are searched, and a synthetic dataset of `opening_images` such images is opened; 0 leaves
    that part out. Scratch files go to the system's temporary folder.
    """
    data = ImageDataset(path, packed=False)
    if batch < 1 or batches < 2:
        raise UserError("The loaders are measured on two batches at least, of one pair at least.")
    if not matching_file(data.parts[0].folder):
        pack(data.parts[0].path)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_pictures(data, folder / "png")
        rates = tuple(
            in_own_process(measure, str(data.parts[0].path), str(folder / "png"), v, batch, batches) for v in VARIANTS
        )
        searches = measure_searches(search_images, folder) if search_images else ()
        openings = measure_opening(data, opening_images, batch, folder, in_own_process) if opening_images else ()
    return LoaderBench(len(data), data.size, batch, rates, searches, openings)


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result, from a fresh process."""
    receive, send = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=answer, args=(send, function, arguments))
    child.start()
    send.close()
    try:
        result = receive.recv()
    except EOFError:
        raise RuntimeError(f"the process that measures {function.__name__} died") from None
    child.join()
    return result


def answer(send: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    send.send(function(*arguments))


def write_pictures(data: ImageDataset, folder: Path) -> None:
    """Every image as a PNG of its own."""
    from PIL import Image

    folder.mkdir()
    for i in range(len(data)):
        Image.fromarray(data.images([i])[0]).save(folder / f"{i}.png")


def measure(path: str, pictures: str, variant: Variant, batch: int, batches: int) -> Rate:
    """Run one variant in this process: a batch to warm up, then the measured ones."""
    import torch

    torch.set_num_threads(1)
    source = batches_of(path, Path(pictures), variant, batch)
    next(source)  # everything is open, one pair was loaded
    idle = resident_mb()
    steps = []
    with Peak() as peak:
        for _ in range(1 + 6 * variant.workers):  # to warm up: each worker comes to know all of the shared memory
            size = sum(tensor.nbytes for tensor in next(source))
        before, begun = cpu_seconds(), time.perf_counter()
        for _ in range(batches):
            start = time.process_time()
            next(source)
            steps.append(time.process_time() - start)
        clock, spent = time.perf_counter() - begun, cpu_seconds() - before
    source.close()  # ends the workers
    mean = max(spent / batches, 1e-9)
    each = mean if variant.workers else max(min(steps), 1e-9)
    allowed = ((PREFETCH if variant.workers else 0) + 2) * size / MB  # however many workers prefetch
    rate = batches * batch / clock
    used = max(0.0, peak.mb - idle)
    return Rate(variant.name, variant.workers, rate, batch / each, batch / mean, used, allowed, variant.goal)


def batches_of(path: str, pictures: Path, variant: Variant, batch: int) -> Generator[list[Any], None, None]:
    """Batches [x, x̃] without end, after an empty one once everything is open."""
    if variant.kind == "png":
        yield from as_the_papers_do(path, pictures, batch)
    from ident3d.loaders.images import normalise
    from ident3d.loaders.loader import make_loader
    from ident3d.loaders.pair_dataset import PairDataset

    data = PairDataset(path, packed=variant.kind == "packed", length=100)
    data.batch(np.arange(200))  # also teaches it where the images lie
    small: Any = iter(make_loader(data, 1, workers=variant.workers))
    next(small)
    yield []
    small.close()
    del small
    data.length = 10**6
    loader = make_loader(data, batch, workers=variant.workers, prefetch=PREFETCH)
    while True:
        for _, images in loader:
            yield [normalise(x, data.mean, data.std) if variant.normalised else x for x in images]
            del images


def as_the_papers_do(path: str, pictures: Path, batch: int) -> Iterator[list[Any]]:
    """Sample by sample: a draw from marginal and conditional, each searched alone, and two PNG files."""
    import faiss
    import torch
    from PIL import Image

    from ident3d.loaders.pair_dataset import world_conditional

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


def cpu_seconds() -> float:
    """CPU time of this process and its children."""
    import psutil

    own = psutil.Process(os.getpid())
    return float(sum(sum(process.cpu_times()[:2]) for process in (own, *own.children(recursive=True))))


def resident_mb() -> float:
    """The memory of this process and its children: what each has of its own, and once what they share."""
    import psutil

    own = psutil.Process(os.getpid())
    found = []
    for process in (own, *own.children(recursive=True)):
        try:
            found.append(process.memory_info())
        except psutil.Error:
            continue
    return float(sum(info.rss - info.shared for info in found) + max(info.shared for info in found)) / MB


class Peak:
    """Watches the memory of this process and its children in a thread."""

    def __enter__(self) -> "Peak":
        self.mb, self.over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.over.wait(0.02):
            self.mb = max(self.mb, resident_mb())

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
