"""``render``: from a recipe to a complete dataset folder, continued wherever an earlier run stopped."""

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ident3d.devices import Device, resolve_device
from ident3d.errors import UserError
from ident3d.farm import Failure, cores, embedded_cluster, run_jobs
from ident3d.jobs import adopt
from ident3d.loaders import manifest
from ident3d.loaders.card import write_card
from ident3d.loaders.files import lock, remove_partial_files, write_atomically
from ident3d.loaders.folder import SHARDS, Description, begin, finish, is_dataset, plan, remove_dataset
from ident3d.loaders.manifest import Entry
from ident3d.loaders.provenance import record_run
from ident3d.loaders.source import COPY, copied, drawn, npy_bytes, read_latents_file
from ident3d.progress import progress_bar
from ident3d.recipe import THREE_D_IDENT, Recipe
from ident3d.root import data_root
from ident3d.shapes.rendering import mesh_credits


@dataclass(frozen=True)
class Rendered:
    """What a run of `render` did."""

    path: Path
    n: int
    rendered: int
    seconds: float
    complete: bool
    failures: tuple[Failure, ...] = ()


def render(
    n: int | None = None,
    recipe: Recipe = THREE_D_IDENT,
    *,
    out: Path | None = None,
    root: Path | None = None,
    latents: Path | None = None,
    workers: int | None = None,
    shard_size: int | None = None,
    fresh: bool = False,
    show_progress: bool = True,
) -> Rendered:
    """Render images 0 … n-1 of the recipe into a dataset folder.

    A folder that an earlier run left unfinished is continued, a complete one with smaller n grows, and one of other
    settings is refused. `latents` renders the rows of a .npy file instead of drawn latents. `fresh` first deletes the
    dataset that the folder holds.
    """
    started = datetime.now(UTC)
    clock = time.perf_counter()
    n, path = target(n, recipe, out=out, root=root, latents=latents)
    if shard_size is not None and shard_size < 1:
        raise UserError(f"A shard holds at least one image, not {shard_size}.")
    device = resolve_device(recipe.device)
    recipe = replace(recipe, device=device.kind)
    workers = checked_workers(workers, device)
    make_folder(path)
    with ExitStack() as stack:
        stack.enter_context(lock(path))
        cleared = fresh and is_dataset(path)
        if cleared:
            remove_dataset(path)
        source, latents_copy = source_of(recipe, latents)
        settings = recipe.settings(source)
        description = begin(path, settings, n, shard_size, cleared=cleared)
        if latents_copy and not (path / COPY).exists():
            write_atomically(path / COPY, latents_copy)
        remove_partial_files(path)
        remove_partial_files(path / SHARDS)
        entries = adopt_finished(path, description)
        if description.complete:
            return Rendered(path, n, 0, time.perf_counter() - clock, complete=True)
        jobs = plan(description, entries)
        here = sum(job.reuse.count for job in jobs if job.reuse) + sum(e.count for e in whole(entries, jobs))
        check_disk(path, description, entries, n - here)
        bar = stack.enter_context(progress_bar(n, "images", initial=here, show=show_progress))
        failures: list[Failure] = []
        if jobs:
            client = stack.enter_context(embedded_cluster(min(workers, len(jobs))))
            failures = run_jobs(
                client,
                jobs,
                path,
                settings,
                threads=max(1, cores() // workers),
                on_entry=lambda entry: manifest.append_entry(path, entry),
                on_images=bar.update,
                on_failure=lambda failure: bar.set_postfix_str(f"shard {failure.job.name} failed"),
            )
        if not failures:
            description = finish(path, description)
            write_card(path, description, mesh_credits(recipe.world.drawn_classes))
        rendered = n - here - sum(failure.job.count for failure in failures)
        record_run(path, started, workers=workers, images=rendered, failed_shards=len(failures))
    return Rendered(path, n, rendered, time.perf_counter() - clock, not failures, tuple(failures))


def target(
    n: int | None, recipe: Recipe, *, out: Path | None, root: Path | None, latents: Path | None
) -> tuple[int, Path]:
    """How many images go where; with every setting checked."""
    recipe.check()
    n = checked_n(n, recipe, latents)
    return n, out or data_root(root) / recipe.name(n)


def checked_n(n: int | None, recipe: Recipe, latents: Path | None) -> int:
    """n as given, or the number of rows of the latents file."""
    rows = None
    if latents is not None:
        rows = len(recipe.world.check_raw(read_latents_file(latents)))
        n = rows if n is None else n
    if n is None:
        raise UserError("Say how many images to render, as in --n 1000.")
    if n <= 0:
        raise UserError(f"The number of images must be positive, not {n}.")
    if rows is not None and n > rows:
        raise UserError(f"{latents} has {rows} rows of latents, fewer than the {n} images asked for.")
    return n


def checked_workers(workers: int | None, device: Device) -> int:
    """As many as asked for; by default one a core, or one a GPU and never more."""
    if workers is not None and workers < 1:
        raise UserError(f"The number of workers must be positive, not {workers}.")
    if device.kind == "cpu":
        return workers or cores()
    return min(workers or device.count, device.count)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / ".lock").touch()
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None


def source_of(recipe: Recipe, latents: Path | None) -> tuple[dict[str, Any], bytes | None]:
    """Where the latents come from; with the bytes that go into the folder's copy where it is a file."""
    if latents is None:
        return drawn(recipe.seed, recipe.split), None
    file = npy_bytes(recipe.world.check_raw(read_latents_file(latents)))
    return copied(file, recipe.seed, recipe.split), file


def adopt_finished(path: Path, description: Description) -> list[Entry]:
    """Enter the whole shards that a killed run wrote but had not entered; returns all entries."""
    for job in plan(description, manifest.read_entries(path)):
        if not job.reuse and (entry := adopt(path, description.settings, job)):
            manifest.append_entry(path, entry)
    return manifest.read_entries(path)


def whole(entries: list[Entry], jobs: list[Any]) -> list[Entry]:
    """The entries that no job touches."""
    firsts = {job.first for job in jobs}
    return [entry for entry in entries if entry.first not in firsts]


def check_disk(path: Path, description: Description, entries: list[Entry], images: int) -> None:
    """Refuse a run that cannot fit, judged by the shards that are there, else by the usual size of an image."""
    here = sum(entry.count for entry in entries)
    usual = 6000 * (description.size / 64) ** 1.25  # bytes, from rendered datasets of 64 to 224 pixels
    each = sum(entry.bytes for entry in entries) / here if here else usual
    free = shutil.disk_usage(path).free
    if images * each > free:
        raise UserError(
            f"{images:,} images need about {images * each / 1e9:.1f} GB, but {path} has only {free / 1e9:.1f} GB free."
        )
