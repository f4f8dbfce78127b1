"""``estimate``: what a render would take, measured before it starts."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ident3d.devices import resolve_device
from ident3d.farm import cores, embedded_cluster
from ident3d.jobs import trial
from ident3d.loaders import manifest
from ident3d.loaders.folder import is_dataset
from ident3d.loaders.source import COPY
from ident3d.recipe import THREE_D_IDENT, Recipe
from ident3d.rendering import checked_workers, source_of, target


@dataclass(frozen=True)
class Estimate:
    """What a run would take, from a few images rendered on this machine."""

    path: Path
    images: int
    seconds_per_image: float
    bytes_per_image: float
    workers: int
    free_bytes: int

    @property
    def hours(self) -> float:
        return self.images * self.seconds_per_image / self.workers / 3600

    @property
    def core_hours(self) -> float:
        return self.images * self.seconds_per_image / 3600

    @property
    def bytes(self) -> float:
        return self.images * self.bytes_per_image


def estimate(
    n: int | None = None,
    recipe: Recipe = THREE_D_IDENT,
    *,
    out: Path | None = None,
    root: Path | None = None,
    latents: Path | None = None,
    workers: int | None = None,
) -> Estimate:
    """What `render` would take, measured on a few images; nothing is written."""
    n, path = target(n, recipe, out=out, root=root, latents=latents)
    device = resolve_device(recipe.device)
    recipe = replace(recipe, device=device.kind)
    workers = checked_workers(workers, device)
    done = sum(entry.count for entry in manifest.read_entries(path)) if is_dataset(path) else 0
    with TemporaryDirectory() as scratch, embedded_cluster(1) as client:
        source, latents_copy = source_of(recipe, latents)
        if latents_copy:
            (Path(scratch) / COPY).write_bytes(latents_copy)
        settings = recipe.settings(source)
        count = min(4, n - 1)
        seconds, size = client.submit(trial, Path(scratch), settings, 0, count, max(1, cores() // workers)).result()
    existing = next(folder for folder in [path.absolute(), *path.absolute().parents] if folder.exists())
    return Estimate(path, max(0, n - done), seconds, size, workers, shutil.disk_usage(existing).free)
