"""``estimate``: what a render would take, measured before it starts."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ident3d.farm.connect import embedded_cluster
from ident3d.farm.recipe import THREE_D_IDENT, Recipe
from ident3d.farm.render_shard import trial
from ident3d.farm.request import order
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.folders.lifecycle import intended
from ident3d.loaders.folders.store_transfer import looking
from ident3d.loaders.format import manifest
from ident3d.loaders.format.latents_source import LATENTS_FILE
from ident3d.loaders.stores.store import Store
from ident3d.machine import free_bytes

TRIAL_IMAGES = 4


@dataclass(frozen=True)
class Estimate:
    """What a run would take, from a few images rendered on this machine."""

    path: Path | Store
    images: int
    seconds_per_image: float
    bytes_per_image: float
    workers: int
    threads: int
    free_bytes: int | None  # not known of a store

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
        An `Estimate`: seconds, bytes and memory.
    """
    wanted = order(n, recipe, out=out, root=root, latents=latents, workers=workers)
    done = 0
    if is_dataset(wanted.path) and not fresh:
        with looking(wanted.path) as path:
            intended(path, wanted.settings, wanted.n, None)  # refuses a folder of other settings, as render would
            done = sum(entry.count for entry in manifest.read_entries(path))
    with TemporaryDirectory() as scratch, embedded_cluster(1) as client:
        if wanted.latents_copy:
            (Path(scratch) / LATENTS_FILE).write_bytes(wanted.latents_copy)
        work = client.submit(trial, Path(scratch), wanted.settings, min(TRIAL_IMAGES, wanted.n), wanted.threads)
        seconds, size = work.result()
    free = None if isinstance(wanted.path, Store) else free_bytes(wanted.path)
    return Estimate(wanted.path, max(0, wanted.n - done), seconds, size, wanted.workers, wanted.threads, free)
