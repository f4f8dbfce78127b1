"""What an image of each class costs next to one of the teapot."""

import time
from dataclasses import dataclass
from typing import Annotated

from ident3d.bench.measure import Shown, table
from ident3d.farm.bpy_libraries import require_bpy
from ident3d.latents import World, draw
from ident3d.latents.exact.names import CLASSES
from ident3d.latents.exact.streams import noise_seed
from ident3d.progress import progress_bar
from ident3d.shapes.cache import load_mesh
from ident3d.shapes.rendering import MADE_IN_CODE, load_meshes, mesh_hashes


@dataclass(frozen=True)
class ClassCost:
    """Mean CPU seconds an image, and how many times the teapot's that is."""

    name: Annotated[str, Shown("class")]
    triangles: Annotated[int, Shown("triangles", ",")]
    cpu_seconds: Annotated[float, Shown("CPU s/image", ".3f")]
    ratio: Annotated[float, Shown(f"this / {MADE_IN_CODE}", ".2f")]


@dataclass(frozen=True)
class ClassBench:
    """The costs of all classes, measured in turn on the same latents."""

    size: int
    quality: str
    images: int
    classes: tuple[ClassCost, ...]

    def table(self) -> str:
        return table(self.classes, style="simple")


def bench_classes(
    *, images: int = 12, size: int = 224, quality: str = "standard", show_progress: bool = True
) -> ClassBench:
    """Render the same `images` latents in each class with one thread, class by class in turn as a dataset does.

    The time includes bringing another mesh on the stage, which every image of such a dataset pays.
    """
    require_bpy()
    from ident3d.blender_scenes.studio import Studio
    from ident3d.blender_scenes.three_d_ident import ThreeDIdent

    world = World("causal3dident")
    scene_latents = world.to_scene(draw(world, seed=0, split="test", start=0, count=images).raw)
    seconds = dict.fromkeys(CLASSES, 0.0)
    total = (images + 1) * len(CLASSES)
    # Class by class for each row, so that slow drifts of the machine reach all classes alike.
    scene = ThreeDIdent(world, meshes=load_meshes(mesh_hashes(CLASSES)))
    with Studio(scene, size=size, quality=quality) as studio, progress_bar(total, "images", show=show_progress) as bar:
        # The first latents are rendered twice, once to warm up.
        for i, row in enumerate([scene_latents[0], *scene_latents]):
            for name in CLASSES:
                start = time.process_time()
                studio.render(row, seed=noise_seed(0, "test", i), class_name=name)
                seconds[name] += time.process_time() - start if i else 0.0
                bar.update(1)
    base = seconds[MADE_IN_CODE]
    costs = (ClassCost(name, triangles(name), spent / images, spent / base) for name, spent in seconds.items())
    return ClassBench(size, quality, images, tuple(costs))


def triangles(name: str) -> int:
    """Return the number of triangles of a mesh; each of the teapot's quadrangles counts as two."""
    from ident3d.blender_scenes.teapot import teapot

    if name != MADE_IN_CODE:
        return load_mesh(name).record.triangles
    faces = teapot().faces
    return len(faces) + int((faces[:, 2] != faces[:, 3]).sum())
