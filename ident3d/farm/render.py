"""``render``: from a recipe to a complete dataset folder, continued if an earlier run stopped."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.farm.cluster import Cluster
from ident3d.farm.connect import connected, reach
from ident3d.farm.recipe import THREE_D_IDENT, Recipe
from ident3d.farm.request import RenderRequest, make_request
from ident3d.farm.shard_jobs import ImagesDone, JobFailed, Note, describe, run_jobs
from ident3d.farm.worker import ShardDone
from ident3d.loaders.folders.folder import is_dataset, shard_size
from ident3d.loaders.folders.lifecycle import Job, plan, save_if_changed, target_description
from ident3d.loaders.folders.output import FolderOutput, hold_output
from ident3d.loaders.format.description import SHARDS, Description
from ident3d.loaders.format.files import FULL, remove_partial_files, write_atomically
from ident3d.loaders.format.inside import names_in
from ident3d.loaders.format.latents_source import LATENTS_FILE, copy_is_sound
from ident3d.loaders.format.manifest import ShardEntry, in_order
from ident3d.loaders.stores.data_root import usual_image_bytes
from ident3d.loaders.stores.store import Store
from ident3d.progress import progress_bar
from ident3d.shapes.rendering import mesh_credits

LOCAL = Cluster()
# A shard that a worker of another host wrote must be visible here within this time.
SHARED_SECONDS = 60.0
# A finished shard must be entered within this time: a network's trouble may pass.
ENTER_SECONDS = 60.0
# The pauses between attempts to enter it. After the last one it stays the same.
PAUSE_SECONDS = (1.0, 2.0, 5.0, 10.0)


class Unreachable(UserError):
    """There is no cluster to render on. No worker has received anything."""


@dataclass(frozen=True)
class Rendered:
    """What a run of `render` did."""

    path: Path | Store
    n: int
    rendered: int
    seconds: float
    complete: bool
    failures: tuple[JobFailed, ...] = ()


def render(
    n: int | None = None,
    recipe: Recipe = THREE_D_IDENT,
    *,
    out: Path | str | None = None,
    root: Path | str | None = None,
    latents: Path | str | None = None,
    workers: int | None = None,
    shard_size: int | None = None,
    fresh: bool = False,
    cluster: Cluster = LOCAL,
    show_progress: bool = True,
) -> Rendered:
    """Render images 0 … n-1 of the recipe into a dataset folder.

    If an earlier run left the folder unfinished, it is continued. If the folder is complete with a smaller n, it grows.
    If it has other settings, it is refused. With `latents`, the rows of a .npy file are rendered instead of drawn
    latents. With `fresh`, the dataset in the folder is deleted first. By default `workers` processes of this machine
    render; `cluster` names other workers.

    Args:
        n: The number of images; by default as many as `latents` has rows.
        recipe: What to render.
        out: The dataset folder.
        root: The data root, below which the folder is made without `out`.
        latents: A .npy file of raw latents (n, n_raw) to render. A further column is the class, as in all_latents.npy.
        workers: Processes of this machine.
        shard_size: Images in a shard.
        fresh: Delete the folder's dataset first.
        cluster: Where shards are rendered.
        show_progress: Show a progress bar.

    Returns:
        A `Rendered`: the folder, and what was rendered.
    """
    clock = time.perf_counter()
    cluster.check()
    if shard_size is not None and shard_size < 1:
        raise UserError(f"A shard holds at least one image, not {shard_size}.")
    request = make_request(n, recipe, out=out, root=root, latents=latents, workers=workers, is_local=cluster.is_local)
    with hold_output(request.path) as output:
        path = output.path
        existed = is_dataset(path)
        cleared = fresh and existed
        if cleared:
            # A scheduler that does not answer must not cost the dataset.
            reach(cluster)
            output.clear()
        # The manifest is read here, and nowhere else: with a million shards a reading takes 6 s. From here on the
        # entries are kept up to date along with the file.
        description, entries = target_description(path, request.settings, request.n, shard_size, cleared=cleared)
        check_disk(path, description, entries, output.free_bytes())
        output.set_aside_unused(entries)
        save_if_changed(path, description)
        if request.latents_copy and not copy_is_sound(path, description.settings):
            write_atomically(path / LATENTS_FILE, request.latents_copy)
        remove_partial_files(path)
        remove_partial_files(path, SHARDS)
        description, entries = output.resume(description, entries)
        if description.complete:
            if lost := output.lost_beside():
                output.remake_lost(description, entries, mesh_credits(request.recipe.world.drawn_classes), lost)
            return Rendered(request.path, request.n, 0, time.perf_counter() - clock, complete=True)
        if not entries:
            request.warn_of_scene()
        try:
            result = render_jobs(request, cluster, output, description, plan(description, entries), show_progress)
        except Unreachable:
            if not existed and not entries:
                # This run wrote the description, and there is nothing else.
                output.clear()
            raise
        except BaseException:
            # Workers of this machine were killed, perhaps while they wrote. Those elsewhere may be writing still.
            if cluster.is_local:
                with suppress(UserError, OSError):
                    remove_unfinished(output)
            raise
        remove_unfinished(output)
        if not result.failures:
            credits = mesh_credits(request.recipe.world.drawn_classes)
            output.finish(description, in_order([*entries, *result.entries]), credits)
    seconds = time.perf_counter() - clock
    return Rendered(request.path, request.n, result.images, seconds, not result.failures, tuple(result.failures))


def remove_unfinished(output: FolderOutput) -> None:
    """Delete the partial shards of workers that died."""
    # Without the lease another run may own the folder by now, and nothing of it may be touched.
    output.held.check()
    remove_partial_files(output.path, SHARDS)


@dataclass
class RunResult:
    """What a run has done so far: images rendered, shards entered, jobs given up."""

    images: int
    entries: list[ShardEntry]
    failures: list[JobFailed]


def render_jobs(
    request: RenderRequest,
    cluster: Cluster,
    output: FolderOutput,
    description: Description,
    jobs: list[Job],
    show_progress: bool,
) -> RunResult:
    """Do the jobs on the cluster and enter their shards. The run is recorded in the folder, however it ends."""
    result = RunResult(0, [], [])
    if not jobs:
        return result
    started = datetime.now(UTC)
    # Also a run that is killed before its end leaves a record.
    output.record(started, ended=False)
    to_render = sum(job.count - job.already for job in jobs)
    workers = min(request.workers, len(jobs))
    hosts = set[str]()
    with progress_bar(request.n, "images", initial=request.n - to_render, show=show_progress) as bar:
        note = partial(bar.write, file=sys.stderr)
        try:
            with ExitStack() as ending:
                try:
                    client = ending.enter_context(connected(cluster, workers))
                except UserError as error:
                    raise Unreachable(str(error)) from None
                events = run_jobs(
                    client,
                    jobs,
                    request.path,
                    description.settings,
                    threads=request.threads * request.workers // workers if cluster.is_local else 1,
                    wait_forever=not cluster.is_local,
                    files=request.recipe.scene_files,
                )
                for event in ending.enter_context(closing(events)):
                    match event:
                        case ShardDone(entry, host):
                            hosts.add(host)
                            with_retries(partial(enter, request.path, output, entry), entry.name, note)
                            result.entries.append(entry)
                        case ImagesDone(change):
                            result.images += change
                            bar.update(change)
                        case JobFailed():
                            result.failures.append(event)
                            bar.set_postfix_str(f"{len(result.failures)} shards failed")
                        case Note(text):
                            note(text)
        finally:
            facts: dict[str, Any] = {"workers": workers} if cluster.is_local else {}
            output.record(started, ended=True, images=result.images, rendered_on=sorted(hosts), **facts)
    return result


def enter(place: Path | Store, output: FolderOutput, entry: ShardEntry) -> None:
    """Enter a finished shard in the manifest, once it is visible from here."""
    # A network file system may show the files of other hosts only after a while.
    end = time.monotonic() + SHARED_SECONDS
    while isinstance(place, Path) and shard_size(place, entry) != entry.bytes:
        if time.monotonic() > end:
            raise UserError(
                f"A worker has written {entry.name}, but it is not in {place}: workers and client must share it."
            )
        time.sleep(0.1)
    output.enter(entry)


def with_retries(enter_shard: Callable[[], object], name: str, note: Callable[[str], object]) -> None:
    """Enter a finished shard. After an OSError try again, for up to a minute, unless the disk is full."""
    # To enter a shard a second time does no harm: its line, or its object, is the same.
    end = time.monotonic() + ENTER_SECONDS
    for attempt in count():
        pause = PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS) - 1)]
        try:
            enter_shard()
            return
        except OSError as error:
            if error.errno in FULL or time.monotonic() + pause > end:
                raise
            if not attempt:
                note(f"{name} cannot be entered yet ({describe(error)}); it is tried again for a minute.")
        time.sleep(pause)


def check_disk(path: Path, description: Description, entries: Sequence[ShardEntry], free: int | None) -> None:
    """Raise UserError if the run cannot fit, judged by the shards that are there, or by the usual size of images."""
    images = sum(entry.count for entry in entries)
    # If the manifest was lost, its shards are there all the same.
    if not entries and any(names_in(path, SHARDS)):
        return
    each = sum(entry.bytes for entry in entries) / images if images else usual_image_bytes(description.size)
    left = description.n - images
    if free is not None and left * each > free:
        raise UserError(
            f"{left:,} images need about {left * each / 1e9:.1f} GB, but {path} has only {free / 1e9:.1f} GB free."
        )
