"""``render``: from a recipe to a complete dataset folder, continued wherever an earlier run stopped."""

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ident3d.errors import UserError
from ident3d.farm.cluster import Cluster
from ident3d.farm.connect import connected, reach
from ident3d.farm.recipe import THREE_D_IDENT, Recipe
from ident3d.farm.render_shard import adopt
from ident3d.farm.request import Order, order
from ident3d.farm.shard_jobs import Failure, run_jobs
from ident3d.loaders.folders.card import write_card
from ident3d.loaders.folders.folder import SHARDS, Description, Folder, is_dataset
from ident3d.loaders.folders.lifecycle import Job, drop_lost, intended, plan, write_down
from ident3d.loaders.folders.output import FolderOutput, writing
from ident3d.loaders.format import manifest
from ident3d.loaders.format.files import remove_partial_files, write_atomically
from ident3d.loaders.format.latents_source import LATENTS_FILE, copy_is_sound
from ident3d.loaders.format.manifest import ShardEntry
from ident3d.loaders.stores.store import Store
from ident3d.progress import progress_bar
from ident3d.shapes.rendering import mesh_credits

HERE = Cluster()
SHARED_SECONDS = 60.0  # in which a shard must be seen here after a worker of another host wrote it


class Unreachable(UserError):
    """There is no cluster to render on: nothing was sent to any worker."""


@dataclass(frozen=True)
class Rendered:
    """What a run of `render` did."""

    path: Path | Store
    n: int
    rendered: int
    seconds: float
    complete: bool
    failures: tuple[Failure, ...] = ()


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
    cluster: Cluster = HERE,
    show_progress: bool = True,
) -> Rendered:
    """Render images 0 … n-1 of the recipe into a dataset folder.

    A folder that an earlier run left unfinished is continued, a complete one with smaller n grows, and one of other
    settings is refused. `latents` renders the rows of a .npy file instead of drawn latents. `fresh` first deletes the
    dataset that the folder holds. `cluster` says where, if not in `workers` processes of this machine.

    Args:
        n: The number of images; by default as many as `latents` has rows.
        recipe: What to render.
        out: The dataset folder.
        root: The data root, below which the folder is made without `out`.
        latents: A .npy file of raw latents (n, n_raw) to render.
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
    wanted = order(n, recipe, out=out, root=root, latents=latents, workers=workers, here=cluster.is_local)
    with writing(wanted.path) as output:
        path = output.path
        there = is_dataset(path)
        cleared = fresh and there
        if cleared:
            reach(cluster)  # or the dataset would be deleted for nothing
            output.clear()
        description = intended(path, wanted.settings, wanted.n, shard_size, cleared=cleared)
        check_disk(path, description, output.free_bytes())
        write_down(path, description)
        if wanted.latents_copy and not copy_is_sound(path, description.settings):
            write_atomically(path / LATENTS_FILE, wanted.latents_copy)
        remove_partial_files(path)
        remove_partial_files(path / SHARDS)
        description, entries = drop_lost(path, description, output.stored())
        if description.complete:
            return Rendered(wanted.path, wanted.n, 0, time.perf_counter() - clock, complete=True)
        entries = adopt_finished(path, description, entries, output.at_hand)
        output.begin()
        jobs = plan(description, entries)
        try:
            rendered, failures = run(wanted, cluster, output, description, jobs, show_progress)
        except Unreachable:
            if not there and not entries:
                output.clear()  # of the dataset, its description is all that there is
            raise
        output.held.check()
        remove_partial_files(path / SHARDS)  # of workers that died
        if not failures:
            output.finish(description, lambda path, last: write_card(path, last, credits_of(wanted)))
    return Rendered(wanted.path, wanted.n, rendered, time.perf_counter() - clock, not failures, tuple(failures))


def run(
    wanted: Order,
    cluster: Cluster,
    output: FolderOutput,
    description: Description,
    jobs: list[Job],
    show_progress: bool,
) -> tuple[int, list[Failure]]:
    """Do the jobs on the cluster and record the run, however it ends; images rendered, and jobs given up."""
    if not jobs:
        return 0, []
    started = datetime.now(UTC)
    to_render = sum(job.count - job.already for job in jobs)
    workers = min(wanted.workers, len(jobs))
    failures: list[Failure] = []
    hosts = set[str]()
    rendered = 0
    with progress_bar(wanted.n, "images", initial=wanted.n - to_render, show=show_progress) as bar:

        def on_failure(failure: Failure) -> None:
            failures.append(failure)
            bar.set_postfix_str(f"{len(failures)} shards failed")

        def on_images(change: int) -> None:
            nonlocal rendered
            rendered += change
            bar.update(change)

        try:
            with ExitStack() as ending:
                try:
                    client = ending.enter_context(connected(cluster, workers))
                except UserError as error:
                    raise Unreachable(str(error)) from None
                run_jobs(
                    client,
                    jobs,
                    wanted.path,
                    description.settings,
                    threads=wanted.threads * wanted.workers // workers if cluster.is_local else 1,
                    on_entry=lambda entry: enter(wanted.path, output, description, entry),
                    on_images=on_images,
                    on_failure=on_failure,
                    on_host=hosts.add,
                    on_note=lambda note: bar.write(note, file=sys.stderr),
                    patient=not cluster.is_local,
                )
        finally:
            here = {"workers": workers} if cluster.is_local else {}
            output.record(started, **here, images=rendered, rendered_on=sorted(hosts))
    return rendered, failures


def enter(place: Path | Store, output: FolderOutput, description: Description, entry: ShardEntry) -> None:
    """Enter a finished shard in the manifest, once it is to be seen from here: network file systems take a while."""
    end = time.monotonic() + SHARED_SECONDS
    folder = Folder(output.path, description, ())
    while isinstance(place, Path) and folder.shard_size(entry, None) != entry.bytes:
        if time.monotonic() > end:
            raise UserError(
                f"A worker says that {entry.name} is written, but it is not in {place}: "
                "workers and client must share that folder."
            )
        time.sleep(0.1)
    output.enter(entry)


def credits_of(wanted: Order) -> list[str]:
    return mesh_credits(wanted.recipe.world.drawn_classes)


def adopt_finished(
    path: Path,
    description: Description,
    entries: list[ShardEntry],
    at_hand: Callable[[Iterable[Job]], Iterable[Job]] = iter,
) -> list[ShardEntry]:
    """Enter the whole shards that a killed run wrote but had not entered; returns all entries."""
    for job in at_hand(plan(description, entries)):
        if entry := adopt(path, description.settings, job):
            manifest.append_entry(path, entry)
    return manifest.read_entries(path)


def check_disk(path: Path, description: Description, free: int | None) -> None:
    """Refuse a run that cannot fit, judged by the shards that are there, else by the usual size of an image."""
    entries = manifest.read_entries(path)
    here = sum(entry.count for entry in entries)
    usual = 6000 * (description.size / 64) ** 1.25  # bytes, from rendered datasets of 64 to 224 pixels
    each = sum(entry.bytes for entry in entries) / here if here else usual
    images = description.n - here
    if free is not None and images * each > free:
        raise UserError(
            f"{images:,} images need about {images * each / 1e9:.1f} GB, but {path} has only {free / 1e9:.1f} GB free."
        )
