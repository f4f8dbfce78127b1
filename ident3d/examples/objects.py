"""Two objects side by side on a floor, each with a shape, a size, a texture, a hue and a place of its own."""

import colorsys
import math
from typing import Any

import bmesh
import bpy

from ident3d import Factor, Focus, Scene

# Object → the middle of the half of the floor that is its own, so that they never touch.
HALVES = {"left": -1.6, "right": 1.6}
SHAPES = ("cube", "ball", "cone")
TEXTURES = ("plain", "stripes", "checks")


def factors_of(name: str) -> list[Factor]:
    """Return the factors of one object. They are a group: `--fix left=0` holds them all."""
    return [
        Factor(f"{name}_shape", "categorical", values=SHAPES, group=name),
        Factor(f"{name}_size", range=(0.6, 0.95), group=name),
        Factor(f"{name}_texture", "categorical", values=TEXTURES, group=name),
        Factor(f"{name}_hue", "periodic", range=(0, 1), group=name),
        Factor(f"{name}_x", range=(-0.6, 0.6), group=name),
        Factor(f"{name}_y", range=(-1.4, 1.4), group=name),
    ]


class Objects(Scene):
    """Two objects on a floor, under a sun."""

    factors = tuple(factor for name in HALVES for factor in factors_of(name))

    def build(self) -> None:
        """Make the meshes and materials once; `pose` chooses among them."""
        self.meshes = {shape: make_mesh(shape) for shape in SHAPES}
        self.materials = {texture: make_material(texture) for texture in TEXTURES}
        self.things = {name: place(name, self.meshes["ball"]) for name in HALVES}
        for thing in self.things.values():
            # The material is the object's, and not the mesh's: objects of one shape share their mesh.
            thing.material_slots[0].link = "OBJECT"

        floor = place("floor", make_mesh("floor"))
        floor.material_slots[0].link = "OBJECT"
        floor.material_slots[0].material = self.materials["plain"]
        floor.color = (0.6, 0.55, 0.48, 1)
        sun = bpy.data.lights.new("sun", "SUN")
        sun.energy, sun.angle = 4.0, math.radians(6)
        self.sun = place("sun", sun)
        self.sun.rotation_euler = (math.radians(42), math.radians(-30), 0)
        camera = bpy.data.cameras.new("camera")
        camera.lens = 52
        bpy.context.scene.camera = place("camera", camera)
        bpy.context.scene.camera.location = (0, -9.2, 7.4)
        bpy.context.scene.camera.rotation_euler = (math.radians(53.5), 0, 0)
        # Light from everywhere keeps shadows from being black.
        sky = bpy.context.scene.world = bpy.data.worlds.new("sky")
        sky.use_nodes = True
        sky.node_tree.nodes["Background"].inputs["Color"].default_value = (0.24, 0.27, 0.33, 1)

    def pose(self, values: Any) -> None:
        """Set all six factors of each object."""
        for name, thing in self.things.items():
            thing.data = self.meshes[values[f"{name}_shape"]]
            thing.material_slots[0].material = self.materials[values[f"{name}_texture"]]
            thing.color = (*colorsys.hsv_to_rgb(values[f"{name}_hue"], 0.85, 0.8), 1)
            thing.scale = (values[f"{name}_size"],) * 3
            # The meshes stand on z = 0, whatever their size.
            thing.location = (HALVES[name] + values[f"{name}_x"], values[f"{name}_y"], 0)

    def focus(self) -> Focus:
        """Return the objects, and the sun that casts their shadows on the floor."""
        return Focus(list(self.things.values()), self.sun)


def place(name: str, data: Any) -> Any:
    """Return a new object of the scene."""
    thing = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(thing)
    return thing


def make_mesh(shape: str) -> Any:
    """Return a mesh 2 wide and 2 high that stands on z = 0, with a place for a material."""
    made = bmesh.new()
    if shape == "cube":
        bmesh.ops.create_cube(made, size=1.7)
        bmesh.ops.bevel(made, geom=made.edges, offset=0.12, segments=4, profile=0.5, affect="EDGES")
    elif shape == "ball":
        bmesh.ops.create_uvsphere(made, u_segments=64, v_segments=32, radius=1)
    elif shape == "cone":
        bmesh.ops.create_cone(made, cap_ends=True, segments=64, radius1=1, radius2=0.02, depth=2)
    else:
        bmesh.ops.create_grid(made, x_segments=1, y_segments=1, size=40)
    lowest = min(vertex.co.z for vertex in made.verts)
    bmesh.ops.translate(made, vec=(0, 0, -lowest), verts=made.verts)
    mesh = bpy.data.meshes.new(shape)
    made.to_mesh(mesh)
    made.free()
    mesh.shade_smooth()
    mesh.set_sharp_from_angle(angle=math.radians(40))
    mesh.materials.append(None)
    return mesh


def make_material(texture: str) -> Any:
    """Return a material of the object's own colour: plain, or with stripes or checks of white."""
    material = bpy.data.materials.new(texture)
    material.use_nodes = True
    tree = material.node_tree
    surface, colour = tree.nodes["Principled BSDF"], tree.nodes.new("ShaderNodeObjectInfo")
    surface.inputs["Roughness"].default_value = 0.35
    if texture == "plain":
        tree.links.new(colour.outputs["Color"], surface.inputs["Base Color"])
        return material
    # The pattern lies in the object's own coordinates, so that it moves and grows with the object.
    where, mix = tree.nodes.new("ShaderNodeTexCoord"), tree.nodes.new("ShaderNodeMixRGB")
    if texture == "stripes":
        pattern = tree.nodes.new("ShaderNodeTexWave")
        pattern.bands_direction = "Z"
        pattern.inputs["Scale"].default_value = 0.8
        step = tree.nodes.new("ShaderNodeMath")
        step.operation = "GREATER_THAN"
        tree.links.new(pattern.outputs["Fac"], step.inputs[0])
        share = step.outputs[0]
    else:
        pattern = tree.nodes.new("ShaderNodeTexChecker")
        pattern.inputs["Color1"].default_value, pattern.inputs["Color2"].default_value = (0, 0, 0, 1), (1, 1, 1, 1)
        pattern.inputs["Scale"].default_value = 2.2
        share = pattern.outputs["Fac"]
    tree.links.new(where.outputs["Object"], pattern.inputs["Vector"])
    tree.links.new(share, mix.inputs["Fac"])
    tree.links.new(colour.outputs["Color"], mix.inputs["Color1"])
    mix.inputs["Color2"].default_value = (0.85, 0.85, 0.85, 1)
    tree.links.new(mix.outputs["Color"], surface.inputs["Base Color"])
    return material
