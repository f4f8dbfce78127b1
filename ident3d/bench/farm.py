"""How the render farm scales with workers, and how a worker's memory grows over a long run."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from tabulate import tabulate

from ident3d.cluster import embedded_cluster
from ident3d.errors import UserError
from ident3d.farm import Failure, run_jobs
from ident3d.loaders.making import begin, plan
from ident3d.loaders.source import drawn
from ident3d.processors import cores
from ident3d.progress import progress_bar
from ident3d.recipe import THREE_D_IDENT, Recipe

MIB = 2**20


@dataclass(frozen=True)
class Run:
    """One run of the farm. Memory is the resident set of the largest worker, by images rendered per worker."""

    workers: int
    images: int
    images_per_second: float
    start_seconds: float
    memory_mib: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class FarmBench:
    """Runs with different numbers of workers; the first is the baseline."""

    cores: int
    runs: tuple[Run, ...]

    def table(self) -> str:
        base = self.runs[0].images_per_second
        rows = [
            (
                run.workers,
                run.images,
                f"{run.images_per_second:.2f}",
                f"{run.images_per_second / base:.2f}",
                f"{run.start_seconds:.1f}",
                ", ".join(f"{mib:.0f} at {images}" for images, mib in run.memory_mib),
            )
            for run in self.runs
        ]
        headers = ("workers", "images", "images/s", "ratio", "s to first image", "MiB a worker at images rendered")
        return tabulate(rows, headers=headers, disable_numparse=True)


def bench_farm(recipe: Recipe = THREE_D_IDENT, *, workers: Sequence[int] = (1, 2), images: int = 60) -> FarmBench:
    """Render `images` images a worker with each number of workers; rates are between the first image and the last."""
    recipe.check()
    if images < 10 or min(workers) < 1:
        raise UserError("The farm is measured with at least one worker and 10 images for each.")
    return FarmBench(cores(), tuple(measure(recipe, number, images) for number in workers))


def measure(recipe: Recipe, workers: int, images: int) -> Run:
    """One run of the farm into a scratch folder."""
    total = workers * images
    marks = sorted({max(1, images // 10), images // 2, images})
    memory: dict[int, float] = {}
    begun = time.perf_counter()
    times: list[float] = []
    with TemporaryDirectory() as scratch, progress_bar(total, "images") as bar, embedded_cluster(workers) as client:
        settings = recipe.settings(drawn(recipe.seed, recipe.split))
        description = begin(Path(scratch), settings, total, min(50, max(5, images // 5)))
        pids = client.run(os.getpid).values()

        def on_images(change: int) -> None:
            times.extend([time.perf_counter()] * change)
            bar.update(change)
            mark = len(times) // workers
            if mark in marks and mark not in memory:
                memory[mark] = max(psutil.Process(pid).memory_info().rss for pid in pids) / MIB

        failures: list[Failure] = []
        run_jobs(
            client,
            plan(description, []),
            Path(scratch),
            settings,
            threads=1,
            on_entry=lambda entry: None,
            on_images=on_images,
            on_failure=failures.append,
        )
    if failures:
        raise UserError(f"The farm failed: {failures[0].reason}")
    # the last images of a run are rendered by fewer workers than there are, so the rate leaves them out
    full = times[: max(2, total - 5 * workers)]
    rate = (len(full) - workers) / (full[-1] - full[workers - 1])
    return Run(workers, total, rate, times[0] - begun, tuple(sorted(memory.items())))
