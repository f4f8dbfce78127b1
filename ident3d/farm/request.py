"""``RenderRequest``: what `render` and `estimate` shall do, checked and complete before anything is written."""

import json
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.farm.recipe import Recipe, source_of_recipe
from ident3d.farm.scenes import OwnScene
from ident3d.latents.crowding import crowded_latents
from ident3d.latents.worlds import World
from ident3d.loaders.format.latents_source import npy_bytes, read_draws, source_of_copy
from ident3d.loaders.format.latents_table import join_classes
from ident3d.loaders.stores.data_root import data_root
from ident3d.loaders.stores.store import Store, store_or_folder
from ident3d.machine import cores


@dataclass(frozen=True)
class RenderRequest:
    """How many images of which recipe to render, into which folder or store, with how many workers and threads each."""

    n: int
    recipe: Recipe
    path: Path | Store
    workers: int
    threads: int
    source: dict[str, Any]
    latents_copy: bytes | None

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that pixels depend on, as ``dataset.json`` records it."""
        return self.recipe.settings(self.source)

    def warn_of_scene(self) -> None:
        """Warn of objects that leave the frame. Who goes on with a rendering, or lets it grow, has heard of them."""
        if isinstance(self.recipe.world, OwnScene):
            for sentence in filter(None, (self.recipe.world.leaving, self.recipe.world.undriven)):
                warnings.warn(sentence, stacklevel=3)


def check_latents_file(recipe: Recipe, raw: NDArray[np.float32], latents: Path | str) -> None:
    """Raise UserError if latents from a file contradict fixed values of the recipe, or come with a graph."""
    world = recipe.world
    for name, value in world.held.items():
        column = raw[:, world.names.index(name)]
        if (column != np.float32(value)).any():
            raise UserError(f"{name} is held fixed at {value:g}, but {latents} has other values for it.")
    published = World(world.scene).graph if isinstance(world, World) else None
    if world.mechanisms != published:
        raise UserError("--graph and --do ~ draw latents and --latents reads them from a file; take one of the two.")


def make_request(
    n: int | None,
    recipe: Recipe,
    *,
    out: Path | str | None = None,
    root: Path | str | None = None,
    latents: Path | str | None = None,
    workers: int | None = None,
    is_local: bool = True,
) -> RenderRequest:
    """Check every setting and fill in those left open: n from the latents file, device, folder and workers.

    If rendering is not local, the device is taken as given, and the scheduler alone knows how many workers it has.
    """
    recipe.check()
    for sentence in crowded_latents(recipe.world):
        warnings.warn(sentence, stacklevel=3)
    source, latents_copy = source_of_recipe(recipe), None
    if latents is not None:
        if recipe.environments:
            raise UserError("--environment draws latents and --latents reads them from a file; take one of the two.")
        if recipe.sequence:
            raise UserError("--sequence draws frames and --latents reads them from a file; take one of the two.")
        if recipe.views:
            raise UserError("--views draws latents and --latents reads them from a file; take one of the two.")
        raw, classes = read_draws(Path(latents), recipe.world)
        check_latents_file(recipe, raw, latents)
        latents_copy = npy_bytes(join_classes(raw, classes))
        source = source_of_copy(latents_copy, recipe.seed, recipe.split)
        n = len(raw) if n is None else n
        if n > len(raw):
            raise UserError(f"{latents} has {len(raw)} rows of latents, fewer than the {n} images asked for.")
    if n is None:
        raise UserError("Say how many images to render, as in --n 1000.")
    if n <= 0:
        raise UserError(f"The number of images must be positive, not {n}.")
    if recipe.sequence:
        recipe.sequence.check_number(n)
    if recipe.views:
        recipe.views.check_number(n)
    if workers is not None and workers < 1:
        raise UserError(f"The number of workers must be positive, not {workers}.")
    if not is_local and workers is not None:
        raise UserError("--workers is for this machine; the workers of a cluster are set where it is started.")
    if not is_local and recipe.device == "auto":
        raise UserError("--render-device auto is for this machine; on a cluster give cpu, cuda, optix, hip or metal.")
    kind, count = resolve_device(recipe.device) if is_local else (recipe.device, 1)
    recipe = replace(recipe, device=kind)
    # On GPUs there is one process a GPU; on CPUs one a core, unless the user wants fewer with more threads each.
    most = None if kind == "cpu" else count
    workers = min(workers or most or cores(), most or workers or cores())
    path = store_or_folder(out) if out else data_root(root) / recipe.name(n, source)
    return RenderRequest(n, recipe, path, workers, max(1, cores() // workers), source, latents_copy)


def resolve_device(device: str) -> tuple[str, int]:
    """Return the kind and number of devices for cpu, a kind of GPU, or auto.

    With auto it is the first kind of GPU that Blender finds, else the CPU.
    """
    if device == "cpu":
        return "cpu", 1
    # Blender lists them in another process, because a process that hands out render jobs must not load bpy itself.
    code = "import json; from ident3d.blender_scenes.cycles import count_gpus; print(json.dumps(count_gpus()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(
            "Blender cannot list the GPUs of this machine; run `ident3d doctor`, or use --render-device cpu."
        )
    # Blender may print lines of its own first.
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    for kind, count in found.items():
        if count and device in (kind, "auto"):
            return kind, count
    if device == "auto":
        return "cpu", 1
    raise UserError(f"Blender finds no {device} GPU here; use --render-device cpu or auto.")
