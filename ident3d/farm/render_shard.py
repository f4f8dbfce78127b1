"""``render_shard``: make one shard, in the one studio that a process keeps warm."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.scene import said_row
from ident3d.blender_scenes.scene_files import SceneFile, keep
from ident3d.errors import UserError
from ident3d.farm.recipe import rendering_versions
from ident3d.farm.scenes import scene_of
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.exact.streams import noise_seed
from ident3d.latents.sequence_draws import Frames
from ident3d.latents.worlds import World
from ident3d.loaders.folders.judge import whole_shard
from ident3d.loaders.folders.lifecycle import Job, check_due
from ident3d.loaders.format.description import SHARDS
from ident3d.loaders.format.files import sha256, write_atomically
from ident3d.loaders.format.inside import NotPlain, read_plain
from ident3d.loaders.format.latents_source import recorded_latents, world_of
from ident3d.loaders.format.manifest import ShardEntry, entry_of
from ident3d.loaders.format.shard import Shard, encode_shard, read_shard
from ident3d.memory import keep_memory

if TYPE_CHECKING:
    from ident3d.blender_scenes.studio import Studio

RecordedSettings = dict[str, Any]  # as ``dataset.json`` has them


class Renders(Protocol):
    """The part of a studio that a job needs."""

    def render(self, values: NDArray[np.float32], *, seed: int, class_name: str | None) -> NDArray[np.uint8]: ...


StudioOf = Callable[[RecordedSettings, int, int], Renders]  # of settings, threads and number of the GPU


@dataclass
class WarmStudio:
    """The studio of this process, and the settings that it was built for."""

    studio: "Studio | None" = None
    built_for: dict[str, Any] | None = None


_warm = WarmStudio()


class ImageFailed(UserError):
    """The scene raised for one image, so that its shard fails; other shards may be sound."""


def differing_versions(settings: RecordedSettings) -> str:
    """Return which packages have another version here than the dataset was made with; empty if none has."""
    here, due = rendering_versions(), settings["versions"]
    return ", ".join(f"{name} {here.get(name)} instead of {due[name]}" for name in due if here.get(name) != due[name])


def warm_studio(settings: RecordedSettings, threads: int, gpu_index: int) -> Renders:
    """Return this process's studio for these settings. It is built on first use, which takes seconds."""
    from ident3d.blender_scenes.quality import Quality
    from ident3d.blender_scenes.studio import Studio

    built_for = {**settings, "source": None, "threads": threads, "gpu_index": gpu_index}
    if _warm.studio is None or _warm.built_for != built_for:
        # Blender has one scene a process, so the old studio closes first. If the new one cannot be built, the next call
        # tries again.
        if _warm.studio:
            _warm.studio.close()
        _warm.studio = _warm.built_for = None
        keep_memory()
        quality = Quality(**{name: value for name, value in settings["quality"].items() if name != "name"})
        look = {"size": settings["size"], "quality": quality, "device": settings["device"]}
        _warm.studio = Studio(scene_of(settings), **look, threads=threads, gpu_index=gpu_index)
        _warm.built_for = built_for
    return _warm.studio


def render_shard(
    folder: Path,
    settings: RecordedSettings,
    job: Job,
    threads: int,
    gpu_index: int,
    on_image: Callable[[int], None],
    *,
    studio_of: StudioOf = warm_studio,
) -> ShardEntry:
    """Render the job's images, write its shard, and return its entry for the manifest.

    `on_image` is called with the number of the job's images that are done, at the start and after each image.
    """
    # Another worker may have written the shard and died before its result arrived. Then there is nothing to render.
    if entry := whole_shard(folder, settings, job):
        return entry
    draws = recorded_latents(folder, settings, job.first, job.count)
    if draws is None:
        raise UserError(f"{folder} was imported, so its images cannot be rendered again.")
    scene_latents = world_of(settings).to_scene(draws.raw)
    source = settings["source"]
    images = np.empty((job.count, settings["size"], settings["size"], 3), np.uint8)
    kept = kept_images(folder, job)
    images[: len(kept)] = kept
    on_image(len(kept))
    studio = studio_of(settings, threads, gpu_index)
    for i in range(len(kept), job.count):
        seed = noise_seed(source["seed"], source["split"], job.first + i)
        render = seen_from(studio, camera_of(settings, job.first + i))
        try:
            images[i] = render(scene_latents[i], seed=seed, class_name=class_of(draws, i))
        except UserError as error:
            # The pose may have set half of it, which the next shard must not find: its studio is built anew.
            _warm.built_for = None
            said = said_latents(settings, scene_latents[i])
            raise ImageFailed(f"image {job.first + i} ({said}): {error}") from error
        on_image(i + 1)
    index = np.arange(job.first, job.first + job.count, dtype=np.int64)
    shard = Shard(images, draws.raw, scene_latents, index, draws.classes, draws.columns)
    data = encode_shard(shard, settings)
    # Rendering took minutes. Another run may have grown the dataset meanwhile, and this shard would shrink it.
    check_due(folder, settings, job)
    write_atomically(folder / SHARDS / job.name, data, within=folder)
    return entry_of(job.name, shard, data)


def kept_images(folder: Path, job: Job) -> NDArray[np.uint8]:
    """Return the images of the shorter shard that this one grows from; none if it is not as the manifest says."""
    # Rendering gives the same bytes again, so a shorter shard that is damaged, or has grown already, costs only time.
    none = np.empty((0, 1, 1, 3), np.uint8)
    if job.reuse is None:
        return none
    try:
        data = read_plain(folder, f"{SHARDS}/{job.reuse.name}", job.reuse.bytes)
    except (FileNotFoundError, NotPlain):
        return none
    same = sha256(data) == job.reuse.sha256
    return np.asarray(read_shard(folder / SHARDS / job.reuse.name, data).images) if same else none


def said_latents(settings: RecordedSettings, row: NDArray[np.float32]) -> str:
    """Return the scene values of an image as a message names them."""
    world = world_of(settings)
    factors = world.factors if isinstance(world, World) else world
    return said_row(factors.factors, row.tolist())


def camera_of(settings: RecordedSettings, image: int) -> str | None:
    """Return the name of the camera that an image is seen from; None for the scene's own."""
    cameras = settings["source"].get("views", {}).get("cameras")
    return cameras[image % len(cameras)] if cameras else None


def seen_from(studio: Renders, camera: str | None) -> Callable[..., NDArray[np.uint8]]:
    """Return what renders an image, from this camera if there is one."""
    render: Callable[..., NDArray[np.uint8]] = studio.render
    return render if camera is None else partial(render, camera=camera)


def class_of(draws: Frames, i: int) -> str | None:
    """Return the name of the class of image i; None in scenes without classes."""
    return None if draws.classes is None else CLASSES[draws.classes[i]]


def trial(
    folder: Path, settings: RecordedSettings, count: int, threads: int, files: tuple[SceneFile, ...] = ()
) -> tuple[float, float]:
    """Return seconds and bytes per image, measured on `count` images after a first one; nothing is written."""
    keep(files)
    draws = recorded_latents(folder, settings, 0, count)
    assert draws is not None
    scene_latents = world_of(settings).to_scene(draws.raw)
    studio = warm_studio(settings, threads, 0)
    # The first image builds the scene inside Cycles and is not counted.
    studio.render(scene_latents[0], seed=0, class_name=class_of(draws, 0))
    start = time.perf_counter()
    images = [
        seen_from(studio, camera_of(settings, i))(row, seed=0, class_name=class_of(draws, i))
        for i, row in enumerate(scene_latents)
    ]
    seconds = (time.perf_counter() - start) / count
    index = np.arange(count, dtype=np.int64)
    shard = Shard(np.stack(images), draws.raw, scene_latents, index, draws.classes, draws.columns)
    return seconds, len(encode_shard(shard, settings)) / count
