"""Pictures of a dataset and of what its latents do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ident3d.errors import UserError
from ident3d.latents.names import NAMES
from ident3d.latents.streams import noise_seed
from ident3d.loaders.contact_sheet import contact_sheet
from ident3d.loaders.folder import open_folder
from ident3d.loaders.shards import read_shard
from ident3d.loaders.source import world_of
from ident3d.progress import progress_bar
from ident3d.recipe import THREE_D_IDENT, Recipe

SHORT = dict(zip(NAMES, ("x", "y", "z", "φ", "θ", "ψ", "spot", "h.obj", "h.spot", "h.gnd"), strict=True))


def preview(path: Path | str, *, count: int = 24, columns: int = 6, with_latents: bool = False) -> Image.Image:
    """A contact sheet of the first `count` finished images; with their raw latents below on request."""
    if count < 1 or columns < 1:
        raise UserError(f"A contact sheet needs at least one image and one column, not {min(count, columns)}.")
    folder = open_folder(path)
    if not folder.entries:
        raise UserError(f"{path} has no finished images yet.")
    images: list[NDArray[np.uint8]] = []
    captions: list[str] = []
    names = world_of(folder.description.settings).names
    for entry in folder.entries:
        shard = read_shard(folder.shard_path(entry))
        for image, row in zip(shard.images, shard.raw_latents, strict=True):
            images.append(image)
            captions.append(caption(names, row))
        if len(images) >= count:
            break
    images, captions = images[:count], captions[:count]
    return contact_sheet(images, min(columns, len(images)), captions=captions if with_latents else ())


def caption(names: Sequence[str], row: NDArray[np.float32]) -> str:
    """A row of latents in lines of two."""
    cells = [
        f"{SHORT.get(name, name.replace('sphere_', 's'))} {value:+.2f}" for name, value in zip(names, row, strict=True)
    ]
    return "\n".join("   ".join(cells[i : i + 2]) for i in range(0, len(cells), 2))


def traverse(
    recipe: Recipe = THREE_D_IDENT, *, steps: int = 7, base: Sequence[float] | None = None, show_progress: bool = True
) -> Image.Image:
    """One column per latent, which runs from -1 to 1 down the rows while the others stay at `base` (0 by default)."""
    from ident3d.blender_scenes.studio import Studio

    recipe.check()
    world = recipe.world
    if steps < 2:
        raise UserError(f"A traversal needs at least 2 steps, not {steps}.")
    start = np.zeros(world.n_raw, np.float32)
    for name, value in world.fixed.items():
        start[world.names.index(name)] = value
    if base is not None:
        start = np.asarray(base, np.float32)
    world.check_raw(start[None])
    values = np.linspace(-1, 1, steps, dtype=np.float32)
    rows = np.repeat(start[None], steps * world.n_raw, 0).reshape(steps, world.n_raw, world.n_raw)
    for column in range(world.n_raw):
        rows[:, column, column] = values
    flat = world.to_scene(rows.reshape(-1, world.n_raw))
    images: list[Any] = []
    studio = Studio(
        size=recipe.size, quality=recipe.quality, material=recipe.material, hues=world.hues, device=recipe.device
    )
    with studio, progress_bar(len(flat), "images", show=show_progress) as bar:
        for i, scene_latents in enumerate(flat):
            images.append(studio.render(scene_latents, seed=noise_seed(recipe.seed, recipe.split, i)))
            bar.update(1)
    titles = [name.replace("_", " ") for name in world.names]
    return contact_sheet(images, world.n_raw, column_titles=titles, row_titles=[f"{value:+.2f}" for value in values])
