"""Small finished datasets without Blender, written by the very functions that a render job uses."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.latents.environments import Environment
from ident3d.latents.sequence_draws import draw_images
from ident3d.latents.sequences import Sequences
from ident3d.latents.views import Views
from ident3d.latents.worlds import World
from ident3d.loaders.folders import lifecycle
from ident3d.loaders.format import manifest
from ident3d.loaders.format.description import SHARDS
from ident3d.loaders.format.files import write_atomically
from ident3d.loaders.format.latents_source import source_of_seed
from ident3d.loaders.format.manifest import entry_of
from ident3d.loaders.format.shard import Shard, encode_shard


def pictures(raw: NDArray[np.float32], size: int, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth pictures that differ from image to image: a gradient, a disc where x and y say, and faint noise."""
    v, u = np.mgrid[0:size, 0:size] / size * 2 - 1
    images = np.empty((len(raw), size, size, 3), np.uint8)
    rng = np.random.default_rng(seed)
    for image, z in zip(images, raw, strict=True):
        disc = (u - 0.5 * z[0]) ** 2 + (v - 0.5 * z[1]) ** 2 < 0.2
        for c in range(3):
            image[..., c] = np.clip(120 + 60 * (u * z[-1] + v * z[c]) + 60 * disc + rng.normal(0, 1, u.shape), 0, 255)
    return images


def make_dataset(
    path: Path,
    n: int = 40,
    *,
    size: int = 16,
    shard_size: int | None = 8,
    seed: int = 0,
    scene: str = "3dident",
    classes: int = 0,
    finished: bool = True,
    split: str = "train",
    sequence: Sequences | None = None,
    environments: tuple[Environment, ...] = (),
    views: Views | None = None,
) -> Path:
    """A dataset folder of `n` such pictures at latents of the scene, with classes i mod `classes` where asked for."""
    world = World(scene)
    source = source_of_seed(seed, split, sequence, environments, views)
    settings: dict[str, Any] = {"world": world.as_dict(), "size": size, "source": source}
    settings |= {"quality": None, "material": "none", "device": "none", "versions": {}}
    description = lifecycle.begin(path, settings, n, shard_size)
    for job in lifecycle.plan(description, manifest.read_entries(path)):
        how = sequence, environments, views
        drawn = draw_images(world, *how, seed=seed, split=split, start=job.first, count=job.count)
        raw = drawn.raw
        index = np.arange(job.first, job.first + job.count, dtype=np.int64)
        kinds = (index % classes).astype(np.int8) if classes else None
        shard = Shard(pictures(raw, size, job.first), raw, world.to_scene(raw), index, kinds, drawn.columns)
        data = encode_shard(shard, settings)
        write_atomically(path / SHARDS / job.name, data)
        manifest.append_entry(path, entry_of(job.name, shard, data))
    if finished:
        lifecycle.finish(path, description, manifest.read_entries(path))
    return path
