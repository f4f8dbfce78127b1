"""``estimate``: the time, disk and core-hours of a render, measured before it starts."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ident3d.farm.cluster import Cluster
from ident3d.farm.connect import connected
from ident3d.farm.recipe import THREE_D_IDENT, Recipe
from ident3d.farm.render_shard import trial
from ident3d.farm.request import make_request
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.lifecycle import target_description
from ident3d.loaders.folders.store_transfer import working_copy
from ident3d.loaders.format.latents_source import LATENTS_FILE
from ident3d.loaders.stores.store import Store
from ident3d.machine import free_bytes

TRIAL_IMAGES = 4


@dataclass(frozen=True)
class Estimate:
    """The time and room that a run would take, measured on a few images rendered on this machine."""

    path: Path | Store
    images: int
    seconds_per_image: float
    bytes_per_image: float
    workers: int
    threads: int
    free_bytes: int | None  # None for a store

    @property
    def hours(self) -> float:
        return self.images * self.seconds_per_image / self.workers / 3600

    @property
    def core_hours(self) -> float:
        return self.images * self.seconds_per_image * self.threads / 3600

    @property
    def bytes(self) -> float:
        return self.images * self.bytes_per_image


def estimate(
    n: int | None = None,
    recipe: Recipe = THREE_D_IDENT,
    *,
    out: Path | str | None = None,
    root: Path | str | None = None,
    latents: Path | str | None = None,
    workers: int | None = None,
    fresh: bool = False,
) -> Estimate:
    """Return what `render` would take, measured on a few images; nothing is written.

    Args:
        n: The number of images; by default as many as `latents` has rows.
        recipe: What to render.
        out: The dataset folder.
        root: The data root.
        latents: A .npy file of raw latents (n, n_raw) to render.
        workers: Processes of this machine.
        fresh: As if the folder were empty.

    Returns:
        An `Estimate`: seconds and bytes an image, hours, core-hours and bytes of the run.
    """
    request = make_request(n, recipe, out=out, root=root, latents=latents, workers=workers)
    done = 0
    if is_dataset(request.path) and not fresh:
        with working_copy(request.path) as path:
            # A folder of other settings is refused here, as `render` would refuse it.
            _, entries = target_description(path, request.settings, request.n, None)
            done = sum(entry.count for entry in entries)
    if not done:
        request.warn_of_scene()
    with TemporaryDirectory() as scratch, connected(Cluster(), 1) as client:
        if request.latents_copy:
            (Path(scratch) / LATENTS_FILE).write_bytes(request.latents_copy)
        # A worker renders them: bpy must not be loaded in this process, and `render` does it there as well.
        count, files = min(TRIAL_IMAGES, request.n), recipe.scene_files
        work = client.submit(trial, Path(scratch), request.settings, count, request.threads, files)
        seconds, size = work.result()
    free = None if isinstance(request.path, Store) else free_bytes(request.path)
    return Estimate(request.path, max(0, request.n - done), seconds, size, request.workers, request.threads, free)
