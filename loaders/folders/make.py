"""Making a folder of images that are there already, or quickly generated: read, encode, enter, shard by shard."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from ident3d.errors import UserError
from ident3d.loaders.folders.lifecycle import Job, finish, plan, save_if_changed, target_description
from ident3d.loaders.folders.output import FolderOutput
from ident3d.loaders.folders.provenance import record_run
from ident3d.loaders.format import manifest
from ident3d.loaders.format.description import SHARDS, Description
from ident3d.loaders.format.files import remove_partial_files, write_atomically
from ident3d.loaders.format.manifest import ShardEntry, entry_of
from ident3d.loaders.format.shard import Shard, encode_shard
from ident3d.loaders.stores.lease import Lease
from ident3d.progress import progress_bar

Given = TypeVar("Given")


def make_shards(
    out: Path,
    held: Lease,
    settings: dict[str, Any],
    n: int,
    part_of: Callable[[Job], Given],
    shard_of: Callable[[dict[str, Any], Job, Given], Shard],
    *,
    started: datetime,
    shard_size: int | None = None,
    workers: int = 1,
    show_progress: bool = True,
    **facts: Any,
) -> tuple[Description, int]:
    """Begin or continue the folder, make the shards that it lacks, and close it; return how many images were made.

    `part_of` is called here, in order, for what one shard is made of. `shard_of` makes the shard of it, in one of the
    worker processes; it is a function of a module, or a partial of one. At most two parts a worker are in memory.
    """
    output = FolderOutput(out, held)
    description, entries = target_description(out, settings, n, shard_size)
    output.set_aside_unused(entries)
    save_if_changed(out, description)
    remove_partial_files(out, SHARDS)
    description, entries = output.resume(description, entries)
    jobs = plan(description, entries)
    due = sum(job.count for job in jobs)
    if description.complete:
        if lost := output.lost_beside():
            output.remake_lost(description, entries, (), lost)
        return description, due
    with progress_bar(description.n, "images", initial=description.n - due, show=show_progress) as bar:
        for entry in run_jobs(out, settings, jobs, part_of, shard_of, workers):
            output.enter(entry)
            entries.append(entry)
            bar.update(entry.count)
    held.check()
    description = finish(out, description, manifest.in_order(entries), mesh_credits=())
    record_run(out, started, **facts, images=due)
    return description, due


def check_amounts(workers: int | None, shard_size: int | None) -> None:
    """Raise UserError if so many workers or images in a shard cannot be; None leaves a number to the function."""
    if min(1 if workers is None else workers, 1 if shard_size is None else shard_size) < 1:
        raise UserError("There is at least one worker, and at least one image in a shard.")


def run_jobs(
    out: Path,
    settings: dict[str, Any],
    jobs: Sequence[Job],
    part_of: Callable[[Job], Given],
    shard_of: Callable[[dict[str, Any], Job, Given], Shard],
    workers: int,
) -> Iterator[ShardEntry]:
    """Make the jobs' shards and yield each one's entry when it is finished, in any order."""
    if workers <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield write_shard(out, settings, job, part_of(job), shard_of)
        return
    # Spawned, because the lease's heartbeat is a thread of this process, and threads do not survive a fork safely.
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
        under_way = set[Future[ShardEntry]]()
        try:
            for job in jobs:
                under_way.add(pool.submit(write_shard, out, settings, job, part_of(job), shard_of))
                if len(under_way) >= 2 * workers:
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in as_completed(under_way))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def write_shard(
    out: Path,
    settings: dict[str, Any],
    job: Job,
    part: Given,
    shard_of: Callable[[dict[str, Any], Job, Given], Shard],
) -> ShardEntry:
    """Make and write one shard, and return its entry for the manifest."""
    shard = shard_of(settings, job, part)
    data = encode_shard(shard, settings)
    write_atomically(out / SHARDS / job.name, data, within=out)
    return entry_of(job.name, shard, data)
