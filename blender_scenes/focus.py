"""Where an image needs its samples: the boxes around a scene's objects and around the shadow that a light casts.

Elsewhere a few samples do. The boxes follow from the scene alone, so which pixels get more samples does not depend on
noise.
"""

import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from ident3d.blender_scenes.blender import bpy, current_scene
from ident3d.blender_scenes.scene import Focus
from ident3d.errors import UserError
from ident3d.latents.exact.arithmetic import Float64

# Half the width of the pixel filter, in pixels.
FILTER_REACH = 0.75
# How far the spotlight's soft shadow reaches beyond its hard one, in image sizes.
PENUMBRA = 4 / 224
# As far as the sun.
FAR = 1e6
# What Blender makes a mesh of.
SURFACES = ("MESH", "CURVE", "SURFACE", "FONT", "META")


class Rectangle(NamedTuple):
    """Pixel columns left <= x < right and rows top <= y < bottom, row 0 at the top."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def window(self) -> tuple[slice, slice]:
        """Return the box as an index into an image."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def empty(self) -> bool:
        """Return whether no pixel lies in the box."""
        return self.left >= self.right or self.top >= self.bottom


def transform(points: Float64, matrix: Float64) -> Float64:
    """Return points @ matrix, (N, 3) by (3, K)."""
    # This does not go through NumPy's BLAS, whose idle threads would spin through a whole render.
    return np.asarray(np.einsum("ij,jk->ik", points, matrix))


def project(points: Float64, camera: Float64, focal: float, size: int) -> Float64:
    """Return pixel coordinates (N, 2): size / 2 + size * focal * x / -z and size / 2 - size * focal * y / -z.

    x, y and z are along the camera's axes. `camera` is its 4 x 4 world matrix, and `focal` its focal length over its
    sensor width.
    """
    x, y, z = transform(points - camera[:3, 3], camera[:3, :3]).T
    return np.stack([size * (0.5 - focal * x / z), size * (0.5 + focal * y / z)], axis=1)


def shadow(points: Float64, light: Float64, ground: float) -> Float64 | None:
    """Return where rays from `light` through the points meet the plane z = ground; None if one never does."""
    fall = points[:, 2] - light[2]
    if fall.max() >= 0 or points[:, 2].min() < ground:
        return None
    return np.asarray(light + (points - light) * ((ground - light[2]) / fall)[:, None])


def check_focus(focus: Any) -> None:
    """Raise UserError unless this is what `Scene.focus` may return, with objects that are in the scene now."""
    if focus is None:
        return
    if not isinstance(focus, Focus):
        raise UserError(f"`focus` returns ident3d.Focus([...]) or None, not {type(focus).__name__}.")
    objects: Any = focus.objects
    if not isinstance(objects, Collection) or not all(map(in_scene, objects)):
        raise UserError("The `objects` of Focus are a list of objects of the scene, as in Focus([self.ball]).")
    if focus.light is not None and not (in_scene(focus.light) and focus.light.type == "LIGHT"):
        raise UserError("The `light` of Focus is an object of the scene that is a light, or None.")
    if not isinstance(focus.ground, int | float) or not math.isfinite(focus.ground):
        raise UserError(f"The `ground` of Focus is a height, not {focus.ground!r}.")


def in_scene(thing: Any) -> bool:
    return isinstance(thing, bpy.types.Object) and thing.name in current_scene().objects


def focus_boxes(focus: Focus | None, size: int) -> tuple[Rectangle, Rectangle]:
    """Return the boxes around the objects and around their shadow, as Blender has them now."""
    nowhere, everywhere = Rectangle(0, 0, 0, 0), Rectangle(0, 0, size, size)
    if focus is None:
        return everywhere, nowhere
    graph = bpy.context.evaluated_depsgraph_get()
    camera = current_scene().camera.evaluated_get(graph)
    data = camera.data
    if data.type != "PERSP" or data.sensor_fit == "VERTICAL" or data.shift_x or data.shift_y:
        return everywhere, nowhere
    shown = [world_points(thing.evaluated_get(graph)) for thing in focus.objects if not thing.hide_render]
    points = np.concatenate([np.empty((0, 3)), *shown])
    if not len(points):
        return nowhere, nowhere
    place, focal = np.array(camera.matrix_world, np.float64), data.lens / data.sensor_width
    if focus.light is None:
        return around(points, place, focal, size, FILTER_REACH), nowhere
    light = np.array(focus.light.evaluated_get(graph).matrix_world, np.float64)
    # A sun shines along its -z, wherever it stands.
    source = FAR * light[:3, 2] if focus.light.data.type == "SUN" else light[:3, 3]
    return boxes(points, source, focus.ground, place, focal, size)


def world_points(thing: Any) -> Float64:
    """Return where the vertices of an evaluated object are, (N, 3); of what has no surface, the corners of its box."""
    if thing.type in SURFACES:
        vertices = (thing.data if thing.type == "MESH" else thing.to_mesh()).vertices
        points = np.empty((len(vertices), 3), np.float32)
        vertices.foreach_get("co", points.reshape(-1))
        thing.to_mesh_clear()
    else:
        points = np.array(thing.bound_box, np.float32)
    placed = np.array(thing.matrix_world, np.float64)
    return transform(points.astype(np.float64), placed[:3, :3].T) + placed[:3, 3]


def boxes(
    points: Float64, light: Float64, ground: float, camera: Float64, focal: float, size: int
) -> tuple[Rectangle, Rectangle]:
    """Return the boxes around the object's points and around their shadow; the whole image if one is not known."""
    cast = shadow(points, light, ground)
    return (
        around(points, camera, focal, size, FILTER_REACH),
        Rectangle(0, 0, size, size) if cast is None else around(cast, camera, focal, size, PENUMBRA * size),
    )


def around(points: Float64, camera: Float64, focal: float, size: int, margin: float) -> Rectangle:
    """Return the box that holds the points' pixels and a margin; the whole image if one is behind the camera."""
    # A point behind the camera has no pixel.
    if transform(points - camera[:3, 3], camera[:3, 2:3]).max() >= 0:
        return Rectangle(0, 0, size, size)
    pixels = project(points, camera, focal, size)
    left, top = np.clip(np.floor(pixels.min(axis=0) - margin), 0, size).astype(int).tolist()
    right, bottom = np.clip(np.ceil(pixels.max(axis=0) + margin), 0, size).astype(int).tolist()
    return Rectangle(left, top, right, bottom)
