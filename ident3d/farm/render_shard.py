"""What a worker of the render farm does: one job is one shard, rendered in the one studio that it keeps warm."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError
from ident3d.farm.recipe import rendering_versions
from ident3d.latents.draws import Draws
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.exact.streams import noise_seed
from ident3d.loaders.folders.folder import SHARDS
from ident3d.loaders.folders.lifecycle import Job, check_due
from ident3d.loaders.folders.verify import content_problems
from ident3d.loaders.format.files import sha256_of_file, write_atomically
from ident3d.loaders.format.latents_source import recorded_latents, world_of
from ident3d.loaders.format.manifest import ShardEntry, entry_of
from ident3d.loaders.format.shard import Shard, encode_shard, read_settings, read_shard
from ident3d.memory import keep_memory
from ident3d.shapes.rendering import add_meshes

Settings = dict[str, Any]


class Renders(Protocol):
    """The part of a studio that a job needs."""

    def render(self, scene_latents: NDArray[np.float32], *, seed: int, mesh: str) -> NDArray[np.uint8]: ...


StudioOf = Callable[[Settings, int, int], Renders]  # of settings, threads and number of the GPU
_warm: dict[str, Any] = {}  # the process's studio, and what it was built for


def differing_versions(settings: Settings) -> str:
    """What of all that pixels depend on is of another version here than the dataset is made with; empty if nothing."""
    here, due = rendering_versions(), settings["versions"]
    return ", ".join(f"{name} {here.get(name)} instead of {due[name]}" for name in due if here.get(name) != due[name])


def warm_studio(settings: Settings, threads: int, gpu_index: int) -> Renders:
    """This process's studio for these settings, built on first use."""
    from ident3d.blender_scenes.quality import Quality
    from ident3d.blender_scenes.studio import Studio

    meshes = settings.get("meshes", {})
    wanted = {
        "size": settings["size"],
        "quality": Quality(**{name: value for name, value in settings["quality"].items() if name != "name"}),
        "material": settings["material"],
        "hues": settings["world"]["hues"],
        "device": settings["device"],
        "threads": threads,
        "gpu_index": gpu_index,
    }
    if _warm.get("wanted") != (wanted, meshes):
        if "studio" in _warm:
            _warm.pop("studio").close()
        keep_memory()
        _warm.update(studio=Studio(**wanted), wanted=None)
        add_meshes(_warm["studio"], meshes)
        _warm["wanted"] = wanted, meshes
    studio: Renders = _warm["studio"]
    return studio


def render_shard(
    folder: Path,
    settings: Settings,
    job: Job,
    threads: int,
    gpu_index: int,
    on_image: Callable[[int], None],
    *,
    studio_of: StudioOf = warm_studio,
) -> ShardEntry:
    """Render the job's images, write its shard, and return the line that enters it in the manifest.

    `on_image` hears how many of the job's images are done, at the start and after each. A shard that is there already,
    by a worker whose result was lost, is not rendered again.
    """
    if entry := adopt(folder, settings, job):
        return entry
    draws = recorded_latents(folder, settings, job.first, job.count)
    if draws is None:
        raise UserError(f"{folder} was imported: its images cannot be rendered again.")
    scene_latents = world_of(settings).to_scene(draws.raw)
    source = settings["source"]
    images = np.empty((job.count, settings["size"], settings["size"], 3), np.uint8)
    kept = kept_images(folder, job)
    images[: len(kept)] = kept
    on_image(len(kept))
    studio = studio_of(settings, threads, gpu_index)
    for i in range(len(kept), job.count):
        seed = noise_seed(source["seed"], source["split"], job.first + i)
        images[i] = studio.render(scene_latents[i], seed=seed, mesh=shape_of(draws, i))
        on_image(i + 1)
    index = np.arange(job.first, job.first + job.count, dtype=np.int64)
    shard = Shard(images, draws.raw, scene_latents, index, draws.classes)
    data = encode_shard(shard, settings)
    check_due(folder, settings, job)
    write_atomically(folder / SHARDS / job.name, data)
    return entry_of(job.name, shard, data)


def kept_images(folder: Path, job: Job) -> NDArray[np.uint8]:
    """The images of the shorter shard that this one grows from; none if it is not as the manifest says.

    Rendering them again gives the same bytes, so that a shard that is damaged, or grown already, costs only time.
    """
    none = np.empty((0, 1, 1, 3), np.uint8)
    if job.reuse is None:
        return none
    path = folder / SHARDS / job.reuse.name
    if not path.is_file() or sha256_of_file(path) != job.reuse.sha256:
        return none
    return read_shard(path).images


def shape_of(draws: Draws, i: int) -> str:
    """The name of the mesh that row i shows: its class's, or the teapot's in scenes without classes."""
    return "Teapot" if draws.classes is None else CLASSES[draws.classes[i]]


def adopt(folder: Path, settings: Settings, job: Job) -> ShardEntry | None:
    """The entry of a whole shard that was written but not yet entered when its run was killed; None if there is none.

    It is adopted only if it reads without error, records these settings, and holds just the job's images and latents.
    """
    path = folder / SHARDS / job.name
    if not path.is_file() or path.is_symlink():
        return None
    try:
        shard = read_shard(path)
        if read_settings(path) != settings or shard.index.tolist() != list(range(job.first, job.first + job.count)):
            return None
        entry = entry_of(job.name, shard, path.read_bytes())
        return None if content_problems(folder, settings, entry, shard) else entry
    except UserError:
        return None


def trial(folder: Path, settings: Settings, count: int, threads: int) -> tuple[float, float]:
    """Seconds and bytes per image, measured on `count` images after one to warm up; nothing is written."""
    draws = recorded_latents(folder, settings, 0, count)
    assert draws is not None
    scene_latents = world_of(settings).to_scene(draws.raw)
    studio = warm_studio(settings, threads, 0)
    studio.render(scene_latents[0], seed=0, mesh=shape_of(draws, 0))
    start = time.perf_counter()
    images = [studio.render(row, seed=0, mesh=shape_of(draws, i)) for i, row in enumerate(scene_latents)]
    seconds = (time.perf_counter() - start) / count
    shard = Shard(np.stack(images), draws.raw, scene_latents, np.arange(count, dtype=np.int64), draws.classes)
    return seconds, len(encode_shard(shard, settings)) / count
