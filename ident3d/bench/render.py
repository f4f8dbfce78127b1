"""What each quality preset costs and how far it is from the truth."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from ident3d.bench.measure import Shown, table
from ident3d.errors import UserError, check_known
from ident3d.farm.bpy_libraries import require_bpy
from ident3d.farm.recipe import PLAIN_WORLD, Recipe
from ident3d.farm.scenes import scene_of
from ident3d.latents import World, draw
from ident3d.latents.worlds import AnyWorld
from ident3d.loaders.format.latents_source import read_npy
from ident3d.progress import progress_bar

BASELINE = "reference"
TRUTH = "truth"
# The truth's noise seeds start here, far from those of the presets: equal noise would look like agreement.
TRUTH_SEED = 1_000_000


@dataclass(frozen=True)
class Preset:
    """One preset, on average over the scenes. `ratio` is the baseline's CPU seconds over its own."""

    quality: Annotated[str, Shown("quality")]
    cpu_seconds: Annotated[float, Shown("CPU s/image", ".3f")]
    psnr_mean: Annotated[float, Shown("PSNR mean, dB", ".1f")]
    psnr_min: Annotated[float, Shown("PSNR min, dB", ".1f")]
    ratio: Annotated[float | None, Shown(f"{BASELINE} / this", ".1f")]


@dataclass(frozen=True)
class RenderBench:
    """Presets measured on the same scenes against the same truth."""

    size: int
    scenes: int
    blender: str
    presets: tuple[Preset, ...]

    def table(self) -> str:
        """Return a row for each preset."""
        return table(self.presets, style="simple")


def psnr(image: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float:
    """Return 10 log10(255² / mean squared difference), in dB; infinite for equal images."""
    error = np.mean((image.astype(np.float64) - truth) ** 2)
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def fixed_scenes(count: int, world: AnyWorld = PLAIN_WORLD) -> NDArray[np.float32]:
    """Return the benchmark's scene latents: the first test images of seed 0."""
    return world.to_scene(draw(world, seed=0, split="test", start=0, count=count).raw)


def given_pictures(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Read scene latents and pictures of a folder with raw_latents.npy and one picture for each row, in order."""
    raw = World().check_raw(read_npy(folder / "raw_latents.npy"))
    files = sorted(folder.glob("*.png"))
    if len(files) != len(raw):
        raise UserError(f"{folder} has {len(files)} pictures for {len(raw)} rows of latents.")
    pictures = []
    for file in files:
        with Image.open(file) as picture:
            pictures.append(np.asarray(picture.convert("RGB")))
    if len({picture.shape for picture in pictures}) != 1:
        raise UserError(f"The pictures in {folder} are not all of one size.")
    return World().to_scene(raw), np.stack(pictures)


def render_all(
    quality: str, scene_latents: NDArray[np.float32], *, size: int, seed: int, world: AnyWorld = PLAIN_WORLD
) -> tuple[NDArray[np.uint8], float]:
    """Render with one thread; return the images and the CPU seconds of one, the first not counted."""
    from ident3d.blender_scenes.studio import Studio

    images = np.empty((len(scene_latents), size, size, 3), np.uint8)
    scene = scene_of(Recipe(world).settings({}))
    with Studio(scene, size=size, quality=quality) as studio, progress_bar(len(images), f"{quality} images") as bar:
        started = 0.0
        for i, latents in enumerate(scene_latents):
            images[i] = studio.render(latents, seed=seed + i)
            bar.update(1)
            # The first image also loads kernels and builds the scene.
            if i == 0:
                started = time.process_time()
        return images, (time.process_time() - started) / (len(images) - 1)


def bench_render(
    *,
    scenes: int | ArrayLike = 8,
    qualities: Sequence[str] = (BASELINE, "standard", "draft"),
    size: int = 224,
    truth: NDArray[np.uint8] | None = None,
    world: AnyWorld = PLAIN_WORLD,
) -> RenderBench:
    """Render the scenes in every preset and compare them with 1024 samples, without denoising, under other noise seeds.

    `scenes` is a number of the benchmark's own scenes or scene latents (N, 10); `truth` gives their true images
    (N, size, size, 3) if they exist already, which saves the most expensive half of the run. `world` is what is
    rendered: 3DIdent, or a scene of a user's own, as `load_scene` returns it.
    """
    require_bpy()
    from ident3d.blender_scenes.blender import bpy
    from ident3d.blender_scenes.quality import QUALITIES

    for quality in qualities:
        check_known("quality", quality, QUALITIES)
    if isinstance(scenes, int) and scenes < 2:
        raise UserError(f"The presets are compared on at least two scenes, not {scenes}.")
    if world.drawn_classes:
        raise UserError(f"The presets are compared on scenes without classes, which {world.title} has.")
    latents = fixed_scenes(scenes, world) if isinstance(scenes, int) else np.asarray(scenes, np.float32)
    if latents.ndim != 2 or len(latents) < 2:
        count = len(world.factors.factors if isinstance(world, World) else world.factors)
        raise UserError(f"The scenes must be latents of shape (N, {count}) with N at least 2, not {latents.shape}.")
    # Images of 1024 samples take longer than all presets together, so given ones are used if there are any.
    if truth is None:
        truth, _ = render_all(TRUTH, latents, size=size, seed=TRUTH_SEED, world=world)
    if truth.shape != (len(latents), size, size, 3):
        raise UserError(f"The truth must be of shape {(len(latents), size, size, 3)}, not {truth.shape}.")
    cost: dict[str, float] = {}
    errors: dict[str, list[float]] = {}
    for quality in qualities:
        images, cost[quality] = render_all(quality, latents, size=size, seed=0, world=world)
        errors[quality] = [psnr(image, true) for image, true in zip(images, truth, strict=True)]
    base = cost.get(BASELINE)
    presets = tuple(
        Preset(name, cost[name], float(np.mean(errors[name])), min(errors[name]), base and base / cost[name])
        for name in qualities
    )
    return RenderBench(size, len(latents), bpy.app.version_string, presets)
