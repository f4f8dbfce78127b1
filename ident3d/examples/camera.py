"""A camera that moves around a still life: the factors are its pose."""

import math
from itertools import pairwise
from typing import Any

import bmesh
import bpy
from mathutils import Euler

from ident3d import Factor, Focus, Scene

# Where the camera looks.
TARGET = (0, 0, 0.75)
# Radius and height of the outlines, from the bottom up, as a potter turns them.
VASE = ((0, 0), (0.42, 0), (0.62, 0.35), (0.66, 0.7), (0.5, 1.15), (0.24, 1.5), (0.22, 1.75), (0.36, 2), (0, 1.7))
BOWL = ((0, 0), (0.4, 0), (0.42, 0.06), (0.75, 0.25), (0.95, 0.55), (0.9, 0.56), (0.68, 0.3), (0, 0.14))
COLOURS = {
    "teal": (0.03, 0.3, 0.33, 1), "cream": (0.75, 0.66, 0.48, 1), "red": (0.55, 0.03, 0.03, 1),
    "orange": (0.85, 0.28, 0.03, 1), "green": (0.2, 0.42, 0.06, 1), "blue": (0.04, 0.1, 0.35, 1),
    "wine": (0.3, 0.03, 0.1, 1), "grey": (0.3, 0.29, 0.28, 1), "cloth": (0.7, 0.68, 0.62, 1),
}  # fmt: skip


class Camera(Scene):
    """A vase, books and fruit on a cloth, seen from anywhere above the floor."""

    factors = (
        Factor("azimuth", "periodic", range=(0, 360), group="direction"),
        Factor("elevation", range=(20, 70), group="direction"),
        Factor("distance", range=(8, 12)),
        Factor("roll", range=(-25, 25)),
    )

    def build(self) -> None:
        """Set the table. Only the camera is kept, as nothing else ever moves."""
        self.things = [
            place("vase", turned("vase", VASE), (0.9, 0.75, 0.02), "teal"),
            place("bowl", turned("bowl", BOWL), (-0.75, -0.75, 0.02), "cream"),
            place("apple", ball(0.36), (-0.95, -0.7, 0.52), "red"),
            place("orange", ball(0.38), (-0.4, -0.85, 0.56), "orange"),
            place("lime", ball(0.3), (0.75, -1.15, 0.32), "green"),
            place("first book", box(1.7, 1.2, 0.26), (-0.75, 0.95, 0.15), "blue", turn=14),
            place("second book", box(1.5, 1.05, 0.22), (-0.7, 0.95, 0.39), "cream", turn=-8),
            place("third book", box(1.3, 0.95, 0.2), (-0.75, 0.9, 0.6), "wine", turn=27),
        ]
        place("floor", box(80, 80, 0.1), (0, 0, -0.05), "grey")
        place("cloth", box(4.6, 3.6, 0.02), (0, 0, 0.01), "cloth")
        sun = bpy.data.lights.new("sun", "SUN")
        sun.energy, sun.angle = 3.6, math.radians(7)
        self.sun = place("sun", sun, (0, 0, 9))
        self.sun.rotation_euler = (math.radians(40), math.radians(15), 0)
        sky = bpy.context.scene.world = bpy.data.worlds.new("sky")
        sky.use_nodes = True
        sky.node_tree.nodes["Background"].inputs["Color"].default_value = (0.32, 0.34, 0.38, 1)
        camera = bpy.data.cameras.new("camera")
        camera.lens = 62
        self.camera = bpy.context.scene.camera = place("camera", camera, (0, 0, 9))

    def pose(self, values: Any) -> None:
        """Put the camera on a sphere around the target, look at it, and roll."""
        azimuth, elevation, roll = (math.radians(values[name]) for name in ("azimuth", "elevation", "roll"))
        x, y, z = TARGET
        aside, up = values["distance"] * math.cos(elevation), values["distance"] * math.sin(elevation)
        self.camera.location = (x + aside * math.cos(azimuth), y + aside * math.sin(azimuth), z + up)
        # Without a rotation it looks down, with its top to +y. It rolls about its own axis, is tilted up, and turned.
        turn = Euler((math.pi / 2 - elevation, 0, math.pi / 2 + azimuth)).to_matrix()
        self.camera.rotation_euler = (turn @ Euler((0, 0, roll)).to_matrix()).to_euler()

    def focus(self) -> Focus:
        """Return what stands on the cloth, and the sun that casts its shadows."""
        return Focus(self.things, self.sun)


def place(name: str, data: Any, location: Any, colour: str = "", turn: float = 0) -> Any:
    """Return a new object of the scene, turned by degrees about the vertical."""
    thing = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(thing)
    thing.location, thing.rotation_euler = location, (0, 0, math.radians(turn))
    if colour:
        data.materials.append(make_material(colour))
    return thing


def turned(name: str, outline: Any) -> Any:
    """Return the mesh of an outline of (radius, height) that is turned about the vertical."""
    made = bmesh.new()
    corners = [made.verts.new((radius, 0, height)) for radius, height in outline]
    edges = [made.edges.new(pair) for pair in pairwise(corners)]
    axis, centre = (0, 0, 1), (0, 0, 0)
    bmesh.ops.spin(made, geom=corners + edges, angle=2 * math.pi, steps=64, axis=axis, cent=centre)
    bmesh.ops.remove_doubles(made, verts=made.verts, dist=1e-4)
    return finished(name, made)


def ball(radius: float) -> Any:
    """Return the mesh of a ball around the origin."""
    made = bmesh.new()
    bmesh.ops.create_uvsphere(made, u_segments=48, v_segments=24, radius=radius)
    return finished("ball", made)


def box(length: float, width: float, height: float) -> Any:
    """Return the mesh of a box around the origin."""
    made = bmesh.new()
    bmesh.ops.create_cube(made, size=1)
    bmesh.ops.scale(made, vec=(length, width, height), verts=made.verts)
    return finished("box", made)


def finished(name: str, made: Any) -> Any:
    """Return a mesh of what was made, smooth but for sharp edges."""
    bmesh.ops.recalc_face_normals(made, faces=made.faces)
    mesh = bpy.data.meshes.new(name)
    made.to_mesh(mesh)
    made.free()
    mesh.shade_smooth()
    mesh.set_sharp_from_angle(angle=math.radians(40))
    return mesh


def make_material(colour: str) -> Any:
    """Return a material of this colour; a cloth has checks."""
    material = bpy.data.materials.new(colour)
    material.use_nodes = True
    tree = material.node_tree
    surface = tree.nodes["Principled BSDF"]
    surface.inputs["Base Color"].default_value = COLOURS[colour]
    surface.inputs["Roughness"].default_value = 0.4
    if colour in ("grey", "cloth"):
        # No glare where the camera looks towards the sun.
        surface.inputs["Specular IOR Level"].default_value = 0
    if colour == "cloth":
        checks, where = tree.nodes.new("ShaderNodeTexChecker"), tree.nodes.new("ShaderNodeTexCoord")
        checks.inputs["Color1"].default_value, checks.inputs["Color2"].default_value = COLOURS["cloth"], COLOURS["teal"]
        checks.inputs["Scale"].default_value = 10
        tree.links.new(where.outputs["Generated"], checks.inputs["Vector"])
        tree.links.new(checks.outputs["Color"], surface.inputs["Base Color"])
    return material
