"""The two surfaces of the paper's scenes as node trees. Both take their colour from the object that wears them."""

from collections.abc import Callable
from typing import Any

from ident3d.blender_scenes.blender import bpy

_INDEX = 1.2
_ROUGHNESS = 0.35


class _Tree:
    """A material's node tree, with one method that adds a node and sets its inputs."""

    tree: Any  # optional in the stubs

    def __init__(self, name: str) -> None:
        self.material = bpy.data.materials.new(name)
        self.material.use_nodes = True
        self.tree = self.material.node_tree
        self.tree.nodes.clear()

    def add(self, kind: str, output: int | str = 0, /, options: dict[str, str] | None = None, **inputs: Any) -> Any:
        """Add a node; an input is a number, a colour or another node's output. Return the output asked for."""
        node = self.tree.nodes.new(kind)
        for option, value in (options or {}).items():
            setattr(node, option, value)
        for name, value in inputs.items():
            self._feed(node.inputs[name], value)
        return node.outputs[output] if node.outputs else None

    def mix(self, factor: Any, first: Any, second: Any) -> Any:
        """Return the shader factor * second + (1 - factor) * first."""
        node = self.tree.nodes.new("ShaderNodeMixShader")
        # Both shader sockets carry the same name, so they go by place.
        for place, value in enumerate((factor, first, second)):
            self._feed(node.inputs[place], value)
        return node.outputs[0]

    def _feed(self, socket: Any, value: Any) -> None:
        if isinstance(value, bpy.types.NodeSocket):
            self.tree.links.new(value, socket)
        else:
            socket.default_value = value


def rubber() -> bpy.types.Material:
    """Make rubber: Fresnel(1.4) mixes diffuse and Ashikhmin sheen, Fresnel(1.2) a grey Beckmann gloss over both."""
    tree = _Tree("rubber")
    colour = tree.add("ShaderNodeObjectInfo", "Color")
    diffuse = tree.add("ShaderNodeBsdfDiffuse", Color=colour, Roughness=0.0)
    sheen = tree.add("ShaderNodeBsdfSheen", options={"distribution": "ASHIKHMIN"}, Color=colour, Roughness=0.6)
    gloss = tree.add(
        "ShaderNodeBsdfAnisotropic",
        options={"distribution": "BECKMANN"},
        Color=(0.8, 0.8, 0.8, 1.0),
        Roughness=_ROUGHNESS**0.5,
        Anisotropy=0.0,
    )
    soft = tree.mix(tree.add("ShaderNodeFresnel", IOR=_INDEX + 0.2), diffuse, sheen)
    tree.add("ShaderNodeOutputMaterial", Surface=tree.mix(tree.add("ShaderNodeFresnel", IOR=_INDEX), soft, gloss))
    return tree.material


def metal() -> bpy.types.Material:
    """Make metal: 0.6 of a sharp and 0.4 of a blurred GGX gloss, both anisotropic."""
    tree = _Tree("metal")
    colour = tree.add("ShaderNodeObjectInfo", "Color")
    blurred, sharp = (
        tree.add(
            "ShaderNodeBsdfAnisotropic",
            options={"distribution": "GGX"},
            Color=colour,
            Roughness=roughness,
            Anisotropy=0.25,
        )
        for roughness in (0.447214, 0.1)
    )
    tree.add("ShaderNodeOutputMaterial", Surface=tree.mix(0.6, blurred, sharp))
    return tree.material


MATERIALS: dict[str, Callable[[], bpy.types.Material]] = {"rubber": rubber, "metal": metal}
