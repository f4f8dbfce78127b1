"""What a worker of the render farm does: one job is one shard, rendered in the one studio that it keeps warm."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ident3d.errors import UserError
from ident3d.latents.draws import Draws
from ident3d.latents.names import CLASSES
from ident3d.latents.streams import noise_seed
from ident3d.loaders.files import sha256, write_atomically
from ident3d.loaders.folder import SHARDS, Job
from ident3d.loaders.manifest import Entry, entry_of
from ident3d.loaders.shards import Shard, encode_shard, read_settings, read_shard
from ident3d.loaders.source import recorded_latents, world_of
from ident3d.shapes.rendering import add_meshes

Settings = dict[str, Any]
_warm: dict[str, Any] = {}  # the process's studio, and what it was built for


def warm_studio(settings: Settings, threads: int, gpu_index: int) -> Any:
    """This process's studio for these settings, built on first use."""
    from ident3d.blender_scenes.studio import Studio

    wanted = {
        "size": settings["size"],
        "quality": settings["quality"]["name"],
        "material": settings["material"],
        "hues": settings["world"]["hues"],
        "device": settings["device"],
        "threads": threads,
        "gpu_index": gpu_index,
    }
    meshes = settings.get("meshes", {})
    if _warm.get("wanted") != (wanted, meshes):
        if "studio" in _warm:
            _warm.pop("studio").close()
        _warm.update(studio=Studio(**wanted), wanted=None)
        add_meshes(_warm["studio"], meshes)
        _warm["wanted"] = wanted, meshes
    return _warm["studio"]


def render_shard(
    folder: Path, settings: Settings, job: Job, threads: int, gpu_index: int, on_image: Callable[[int], None]
) -> Entry:
    """Render the job's images, write its shard, and return the line that enters it in the manifest.

    `on_image` hears how many of the job's images are done, after each.
    """
    world = world_of(settings)
    draws = recorded_latents(folder, settings, job.first, job.count)
    if draws is None:
        raise UserError(f"{folder} was imported: its images cannot be rendered again.")
    scene_latents = world.to_scene(draws.raw)
    source = settings["source"]
    images = np.empty((job.count, settings["size"], settings["size"], 3), np.uint8)
    done = 0
    if job.reuse:
        images[: job.reuse.count] = reused_images(folder, job)
        done = job.reuse.count
        on_image(done)
    studio = warm_studio(settings, threads, gpu_index)
    for i in range(done, job.count):
        seed = noise_seed(source["seed"], source["split"], job.first + i)
        images[i] = studio.render(scene_latents[i], seed=seed, mesh=shape_of(draws, i))
        on_image(i + 1)
    index = np.arange(job.first, job.first + job.count, dtype=np.int64)
    shard = Shard(images, draws.raw, scene_latents, index, draws.classes)
    data = encode_shard(shard, settings)
    write_atomically(folder / SHARDS / job.name, data)
    return entry_of(job.name, shard, data)


def shape_of(draws: Draws, i: int) -> str:
    """The name of the mesh that row i shows: its class's, or the teapot's in scenes without classes."""
    return "Teapot" if draws.classes is None else CLASSES[draws.classes[i]]


def reused_images(folder: Path, job: Job) -> Any:
    """The images of the shorter shard that this one grows from, once their hash is checked."""
    assert job.reuse is not None
    path = folder / SHARDS / job.reuse.name
    if sha256(path.read_bytes()) != job.reuse.sha256:
        raise UserError(f"The shard {path} does not match its hash; `ident3d verify --repair` removes it.")
    return read_shard(path).images


def adopt(folder: Path, settings: Settings, job: Job) -> Entry | None:
    """The entry of a whole shard that was written but not yet entered when its run was killed; None if there is none.

    It is adopted only if it reads without error, records these settings, and holds just the job's images and latents.
    """
    path = folder / SHARDS / job.name
    if not path.is_file():
        return None
    try:
        shard = read_shard(path)
        same = read_settings(path) == settings
    except UserError:
        return None
    draws = recorded_latents(folder, settings, job.first, job.count)
    whole = np.array_equal(shard.index, np.arange(job.first, job.first + job.count))
    if not (same and whole and draws and np.array_equal(shard.raw_latents, draws.raw)):
        return None
    return entry_of(job.name, shard, path.read_bytes())


def trial(folder: Path, settings: Settings, first: int, count: int, threads: int) -> tuple[float, float]:
    """Seconds and bytes per image, measured on `count` images after one to warm up; nothing is written."""
    draws = recorded_latents(folder, settings, first, count + 1)
    assert draws is not None
    scene_latents = world_of(settings).to_scene(draws.raw)
    studio = warm_studio(settings, threads, 0)
    images = [studio.render(scene_latents[0], seed=0, mesh=shape_of(draws, 0))]
    start = time.perf_counter()
    images += [studio.render(scene_latents[i], seed=0, mesh=shape_of(draws, i)) for i in range(1, len(draws.raw))]
    seconds = (time.perf_counter() - start) / max(1, len(images) - 1)
    shard = Shard(np.stack(images), draws.raw, scene_latents, np.arange(len(images), dtype=np.int64), draws.classes)
    return seconds, len(encode_shard(shard, settings)) / len(images)
