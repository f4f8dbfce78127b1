"""The farm at a cluster's scale: the real scheduler, workers, shards and manifest, with images that cost nothing."""

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ident3d.bench.measure import Shown, in_own_process, table, timed
from ident3d.bench.processes import cpu_seconds, resident_mib, served
from ident3d.errors import UserError
from ident3d.farm.cluster import Cluster
from ident3d.farm.connect import connected
from ident3d.farm.local.embedded import embedded_cluster
from ident3d.farm.recipe import Recipe
from ident3d.farm.render_shard import render_shard
from ident3d.farm.shard_jobs import run_jobs
from ident3d.farm.worker import ShardDone
from ident3d.loaders.folders.lifecycle import Job, begin, plan, target_description
from ident3d.loaders.folders.output import hold_output
from ident3d.loaders.format import manifest
from ident3d.loaders.format.latents_source import source_of_seed
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.progress import progress_bar

# Images so small cost nothing to encode, so that what is measured is the farm's own work.
SIZE = 16
PLAIN_SHARDS = 200
APPENDED = 100


class Still:
    """Stands in for a studio: returns the same picture each time, after a millisecond."""

    def __init__(self, settings: dict[str, Any], threads: int, gpu_index: int) -> None:
        self.picture = np.zeros((settings["size"], settings["size"], 3), np.uint8)

    def render(self, values: NDArray[np.float32], *, seed: int, class_name: str | None) -> NDArray[np.uint8]:
        time.sleep(1e-3)
        return self.picture


@dataclass(frozen=True)
class Half:
    """One run over half of the shards. CPU time is in milliseconds a shard; memory in MiB, at the end."""

    shards: Annotated[int, Shown("shards")]
    shards_per_second: Annotated[float, Shown("shards/s", ".0f")]
    first_entry_seconds: Annotated[float, Shown("s to first", ".2f")]
    client_ms: Annotated[float, Shown("ms client", ".2f")]
    scheduler_ms: Annotated[float, Shown("ms scheduler", ".2f")]
    workers_ms: Annotated[float, Shown("ms workers", ".2f")]
    client_mib: Annotated[float, Shown("MiB client", ".0f")]
    scheduler_mib: Annotated[float, Shown("MiB scheduler", ".0f")]


@dataclass(frozen=True)
class Listing:
    """A manifest of so many shards: CPU seconds to do each thing once, and MiB that its entries take."""

    shards: Annotated[int, Shown("shards", ",")]
    megabytes: Annotated[float, Shown("MB", ".0f")]
    write: Annotated[float, Shown("CPU s to write", ".1f")]
    read: Annotated[float, Shown("CPU s to read", ".1f")]
    append: Annotated[float, Shown("CPU s to append", ".5f")]
    plan: Annotated[float, Shown("CPU s to plan", ".1f")]
    mib: Annotated[float, Shown("MiB", ".0f")]


@dataclass(frozen=True)
class ScaleBench:
    """A run that is broken off in the middle and resumed, the same work without Dask, and manifests."""

    workers: int
    images_per_shard: int
    plain_ms: float
    embedded_ready: float
    halves: tuple[Half, Half]
    resume: float
    listings: tuple[Listing, ...]

    def table(self) -> str:
        return (
            f"{table(self.halves, style='simple')}\n\nCPU ms a shard without Dask: {self.plain_ms:.2f}. "
            f"An embedded cluster of {self.workers} is ready in {self.embedded_ready:.1f} s. "
            f"Seconds to resume: {self.resume:.2f}.\n\n{table(self.listings, style='simple')}"
        )


def bench_scale(
    *, shards: int = 10_000, images_per_shard: int = 4, workers: int = 2, listed: int = 1_000_000
) -> ScaleBench:
    """Hand out `shards` shards of stub images, break off in the middle and resume; list up to `listed` shards."""
    if min(shards // 20, images_per_shard, workers, listed // 10) < 1:
        raise UserError("The scale is measured with at least 20 shards of one image, one worker and a list of 10.")
    begun = time.perf_counter()
    with embedded_cluster(workers) as client:
        client.wait_for_workers(workers)
        ready = time.perf_counter() - begun
    settings = Recipe(size=SIZE, quality="draft").settings(source_of_seed(0, "train"))
    with TemporaryDirectory() as scratch, progress_bar(shards, "shards") as bar:
        folder = Path(scratch)
        description = begin(folder, settings, shards * images_per_shard, images_per_shard)
        plain = plain_ms(folder / "plain", settings, images_per_shard)
        jobs = plan(description, [])
        first = half(folder, settings, jobs, workers, shards // 2, bar.update)
        start = time.perf_counter()
        with hold_output(folder) as output:
            found = target_description(folder, settings, description.n, images_per_shard)
            description, entries = output.resume(*found)
        rest = plan(description, entries)
        resume = time.perf_counter() - start
        second = half(folder, settings, rest, workers, len(rest), bar.update)
    listings = tuple(listing(number) for number in (listed // 10, listed))
    return ScaleBench(workers, images_per_shard, plain, ready, (first, second), resume, listings)


def plain_ms(folder: Path, settings: dict[str, Any], images: int) -> float:
    """Return the CPU milliseconds that a shard takes in this process, without Dask."""
    jobs = plan(begin(folder, settings, PLAIN_SHARDS * images, images), [])
    start = time.process_time()
    for job in jobs:
        manifest.append_entry(folder, render_shard(folder, settings, job, 1, 0, lambda done: None, studio_of=Still))
    return 1e3 * (time.process_time() - start) / len(jobs)


def half(
    folder: Path, settings: dict[str, Any], jobs: list[Job], workers: int, stop: int, progress: Callable[[int], object]
) -> Half:
    """Run the jobs on a scheduler of their own, and break off after `stop` of them."""
    times: list[float] = []
    # Each half has a new scheduler: the second finds nothing in memory, as after a real interruption.
    with served(workers) as there, connected(Cluster(scheduler=there.address), workers) as client:
        client.wait_for_workers(workers)
        # The client is the parent of all others, so that its own time is measured in another way.
        groups = (there.scheduler,), there.nannies
        used = [cpu_seconds(pids) for pids in groups]
        own, start = time.process_time(), time.perf_counter()

        with closing(run_jobs(client, jobs, folder, settings, threads=1, wait_forever=True, studio_of=Still)) as events:
            for event in events:
                if isinstance(event, ShardDone):
                    manifest.append_entry(folder, event.entry)
                    times.append(time.perf_counter() - start)
                    progress(1)
                    if len(times) == stop < len(jobs):
                        break
        spent = [time.process_time() - own]
        spent += [cpu_seconds(pids) - before for pids, before in zip(groups, used, strict=True)]
        memory = resident_mib(os.getpid()), resident_mib(there.scheduler)
    client_ms, scheduler_ms, workers_ms = (1e3 * seconds / stop for seconds in spent)
    return Half(stop, stop / times[-1], times[0], client_ms, scheduler_ms, workers_ms, *memory)


def cost_to_read(folder: Path) -> tuple[float, float]:
    """Return the CPU seconds to read a manifest, and the MiB that its entries take."""
    before = resident_mib(os.getpid())
    # They have a name, so that they are still there when their memory is measured.
    seconds, _entries = timed(partial(manifest.read_entries, folder))
    return seconds, resident_mib(os.getpid()) - before


def listing(shards: int) -> Listing:
    """Measure a manifest of so many shards, which are not there. It is read in a fresh process."""
    rng, sums = np.random.default_rng(0), (4 * 10**8,) * 3
    entries = [
        ShardEntry(manifest.shard_name(k, shards), 64 * k, 64, rng.bytes(32).hex(), 1_800_000, sums, sums)
        for k in range(shards)
    ]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write, _ = timed(lambda: manifest.write_entries(folder, entries))
        # Read in a fresh process, since this one still holds the entries that it wrote.
        read, mib = in_own_process(cost_to_read, folder)
        description = begin(
            folder / "other", Recipe().settings(source_of_seed(0, "train")), 64 * (shards + APPENDED), 64
        )
        planned, jobs = timed(lambda: plan(description, entries))
        start = time.process_time()
        for job in jobs:
            manifest.append_entry(folder, ShardEntry(job.name, job.first, job.count, "0" * 64, 1, sums, sums))
        append = (time.process_time() - start) / len(jobs)
        size = (folder / manifest.MANIFEST_FILE).stat().st_size / 1e6
    return Listing(shards, size, write, read, append, planned, mib)
