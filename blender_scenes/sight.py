"""What a picture shows of an object: how many of its points are in the frame, and whether anything stands before it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.blender import bpy, current_scene, mathutils
from ident3d.blender_scenes.focus import project, transform, world_points
from ident3d.blender_scenes.scene import Focus
from ident3d.latents.exact.arithmetic import Float64

# Rays to an object; it counts as hidden if none of them meets it first.
RAYS = 200
# So many hidden things may a ray pass.
MOST_PASSED = 20
STEP = 1e-4


class Sight(NamedTuple):
    """Of one object: the share of its points that lie in the image, and whether something else hides all of them."""

    name: str
    in_frame: float
    hidden: bool


def sights(focus: Focus | None) -> list[Sight]:
    """Return what can be seen of the objects in focus, as the scene is posed now; nothing for special cameras."""
    graph, found = bpy.context.evaluated_depsgraph_get(), list[Sight]()
    for thing, points, inside, eye in framed(focus):
        seen = points[inside]
        chosen = seen[:: max(1, len(seen) // RAYS)]
        hidden = len(seen) > 0 and not any(is_met(thing, eye, point, graph) for point in chosen)
        found.append(Sight(thing.name, len(seen) / max(1, len(points)), hidden))
    return found


def shares_in_frame(focus: Focus | None) -> dict[str, float]:
    """Return object → the share of its points that lie in the image, without a look at what hides them."""
    return {thing.name: float(inside.mean()) for thing, points, inside, _ in framed(focus) if len(points)}


def framed(focus: Focus | None) -> Iterator[tuple[Any, Float64, NDArray[np.bool_], Float64]]:
    """Yield each shown object in focus with its points, which of them lie in the image, and where the camera stands."""
    graph = bpy.context.evaluated_depsgraph_get()
    camera = current_scene().camera.evaluated_get(graph)
    if focus is None or camera.data.type != "PERSP" or camera.data.shift_x or camera.data.shift_y:
        return
    place, focal = np.array(camera.matrix_world, np.float64), camera.data.lens / camera.data.sensor_width
    for thing in focus.objects:
        if thing.hide_render:
            continue
        points = world_points(thing.evaluated_get(graph))
        inside = transform(points - place[:3, 3], place[:3, 2:3])[:, 0] < 0
        pixels = project(points[inside], place, focal, 1)
        inside[inside] = ((pixels >= 0) & (pixels <= 1)).all(axis=1)
        yield thing, points, inside, place[:3, 3]


def is_met(thing: Any, eye: Any, point: Any, graph: Any) -> bool:
    """Return whether the ray from the eye through the point meets the object before any other that is rendered."""
    start, way = mathutils.Vector(eye), mathutils.Vector(point - eye).normalized()
    for _ in range(MOST_PASSED):
        hit, place, _, _, met, _ = current_scene().ray_cast(graph, start, way)
        if not hit or met.name == thing.name:
            return bool(hit)
        # What is not rendered stands before nothing.
        if not met.original.hide_render:
            return False
        start = place + STEP * way
    return False
