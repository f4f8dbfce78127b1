"""What a picture shows of an object: how many of its points are in the frame, and whether anything stands before it."""

from typing import Any, NamedTuple

import numpy as np

from ident3d.blender_scenes.blender import bpy, current_scene, mathutils
from ident3d.blender_scenes.focus import project, transform, world_points
from ident3d.blender_scenes.scene import Focus

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
    graph = bpy.context.evaluated_depsgraph_get()
    camera = current_scene().camera.evaluated_get(graph)
    if focus is None or camera.data.type != "PERSP" or camera.data.shift_x or camera.data.shift_y:
        return []
    place, focal = np.array(camera.matrix_world, np.float64), camera.data.lens / camera.data.sensor_width
    found = []
    for thing in focus.objects:
        if thing.hide_render:
            continue
        points = world_points(thing.evaluated_get(graph))
        in_front = transform(points - place[:3, 3], place[:3, 2:3])[:, 0] < 0
        seen = points[in_front]
        pixels = project(seen, place, focal, 1)
        seen = seen[((pixels >= 0) & (pixels <= 1)).all(axis=1)]
        chosen = seen[:: max(1, len(seen) // RAYS)]
        hidden = len(seen) > 0 and not any(is_met(thing, place[:3, 3], point, graph) for point in chosen)
        found.append(Sight(thing.name, len(seen) / max(1, len(points)), hidden))
    return found


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
