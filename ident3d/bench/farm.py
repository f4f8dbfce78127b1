"""How the render farm scales with workers, what it costs over plain processes, and how a worker's memory grows."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from ident3d.bench.measure import Column, Shown, columns_of, in_own_process, table
from ident3d.bench.processes import cpu_seconds, resident_mib, served
from ident3d.blender_scenes.scene_files import SceneFile, keep
from ident3d.errors import UserError
from ident3d.farm.cluster import Cluster
from ident3d.farm.connect import connected
from ident3d.farm.recipe import THREE_D_IDENT, Recipe, source_of_recipe
from ident3d.farm.render_shard import render_shard
from ident3d.farm.shard_jobs import ImagesDone, JobFailed, run_jobs
from ident3d.loaders.folders.lifecycle import begin, plan
from ident3d.loaders.format.description import read_description
from ident3d.machine import cores
from ident3d.progress import progress_bar


@dataclass(frozen=True)
class FarmRun:
    """One run. Memory is the resident set of the largest worker, by images rendered per worker; CPU time is of all."""

    kind: Annotated[str, Shown("run")]
    workers: Annotated[int, Shown("workers")]
    images: Annotated[int, Shown("images")]
    images_per_second: Annotated[float, Shown("images/s", ".2f")]
    cpu_per_image: Annotated[float, Shown("CPU s an image", ".3f")]
    start_seconds: Annotated[float, Shown("s to first", ".1f")]
    memory_mib: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class FarmBench:
    """Runs of several kinds with different numbers of workers; the first is the baseline."""

    cores: int
    runs: tuple[FarmRun, ...]

    def table(self) -> str:
        base = self.runs[0].images_per_second
        columns: list[Column] = [
            *columns_of(FarmRun),
            ("ratio of images/s", lambda run: f"{run.images_per_second / base:.2f}"),
            ("MiB a worker at images", lambda run: ", ".join(f"{mib:.0f} at {n}" for n, mib in run.memory_mib)),
        ]
        return table(self.runs, columns, style="simple")


def bench_farm(
    recipe: Recipe = THREE_D_IDENT, *, workers: Sequence[int] = (1, 2), images: int = 60, scheduler: bool = False
) -> FarmBench:
    """Render `images` images a worker with each number of workers; rates are between the first image and the last.

    With `scheduler`, the same numbers of independent plain processes come first, and last the workers of a scheduler
    that is started as docs/how-to/cluster.md does.
    """
    recipe.check()
    if images < 10 or min(workers) < 1:
        raise UserError("The farm is measured with at least one worker and 10 images for each.")
    kinds = (alone, embedded, of_a_scheduler) if scheduler else (embedded,)
    return FarmBench(cores(), tuple(kind(recipe, number, images) for kind in kinds for number in workers))


def embedded(recipe: Recipe, workers: int, images: int) -> FarmRun:
    """Measure the farm as `render` starts it on one machine."""
    return measure_farm(recipe, workers, images, Cluster(), ())


def of_a_scheduler(recipe: Recipe, workers: int, images: int) -> FarmRun:
    """Measure the farm on the workers of a separate scheduler."""
    with served(workers) as there:
        run = measure_farm(recipe, workers, images, Cluster(scheduler=there.address), (there.scheduler, *there.nannies))
    return replace(run, kind="of a scheduler")


def shard_images(images: int) -> int:
    # Short runs get small shards, so that every worker renders several of them.
    return min(50, max(5, images // 5))


def measure_farm(recipe: Recipe, workers: int, images: int, cluster: Cluster, elsewhere: Sequence[int]) -> FarmRun:
    """Run the farm once into a scratch folder; `elsewhere` are its processes that are no children of this one."""
    total = workers * images
    # After a tenth, half and all of the images: a leak would show as growth between the last two.
    marks = sorted({max(1, images // 10), images // 2, images})
    memory: dict[int, float] = {}
    begun = time.perf_counter()
    times: list[float] = []
    cpu: list[float] = []
    with TemporaryDirectory() as scratch, progress_bar(total, "images") as bar, connected(cluster, workers) as client:
        settings = recipe.settings(source_of_recipe(recipe))
        description = begin(Path(scratch), settings, total, shard_images(images))
        # The rate is that of a full farm, so nothing is handed out before all workers are there.
        client.wait_for_workers(workers)
        pids = client.run(os.getpid).values()

        jobs = plan(description, [])
        folder, files = Path(scratch), recipe.scene_files
        for event in run_jobs(client, jobs, folder, settings, threads=1, report_seconds=0, files=files):
            match event:
                case JobFailed(_, reason):
                    raise UserError(f"The farm failed: {reason}")
                case ImagesDone(change):
                    times.extend([time.perf_counter()] * change)
                    bar.update(change)
                    # CPU time counts from when each worker may have rendered an image: the first one loads Blender.
                    if (not cpu and len(times) >= workers) or len(times) == total:
                        cpu.append(time.process_time() + cpu_seconds({*pids, *elsewhere[:1]}))
                    mark = len(times) // workers
                    if mark in marks and mark not in memory:
                        memory[mark] = max(map(resident_mib, pids))
    # The last images of a run are rendered by fewer workers than there are, so the rate leaves them out.
    full = times[: max(2, total - 5 * workers)]
    rate = (len(full) - workers) / (full[-1] - full[workers - 1])
    used = (cpu[-1] - cpu[0]) / (total - workers)
    return FarmRun("embedded", workers, total, rate, used, times[0] - begun, tuple(sorted(memory.items())))


def alone(recipe: Recipe, workers: int, images: int) -> FarmRun:
    """Render in plain processes, each with its own dataset: the most that a farm can reach."""
    with TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(number) for number in range(workers)]
        settings = recipe.settings(source_of_recipe(recipe))
        for folder in folders:
            begin(folder, settings, images, shard_images(images))
        # Each thread waits for a process of its own.
        with ThreadPoolExecutor(workers) as pool:
            seconds, cpu, start = zip(
                *pool.map(partial(in_own_process, render_alone), folders, repeat(recipe.scene_files)),
                strict=True,
            )
    rate, used = sum((images - 1) / each for each in seconds), sum(cpu) / workers / (images - 1)
    return FarmRun("plain processes", workers, workers * images, rate, used, max(start), ())


def render_alone(folder: Path, files: tuple[SceneFile, ...] = ()) -> tuple[float, float, float]:
    """Render a dataset here; return clock and CPU seconds from the first image to the last, and clock to the first."""
    keep(files)
    begun, description = time.perf_counter(), read_description(folder)
    times: list[tuple[float, float]] = []

    def on_image(done: int) -> None:
        if done:
            times.append((time.perf_counter(), time.process_time()))

    for job in plan(description, []):
        render_shard(folder, description.settings, job, 1, 0, on_image)
    (first, first_cpu), (last, last_cpu) = times[0], times[-1]
    return last - first, last_cpu - first_cpu, first - begun
