"""What a data path leads to in the .blend that is open: a number, a part of a colour, or a place for a data-block."""

import colorsys
from dataclasses import dataclass
from typing import Any

from ident3d.blender_scenes.blender import bpy
from ident3d.blender_scenes.data_path import COLLECTIONS, COLOUR_PARTS, DataPath, Step
from ident3d.errors import UserError, unknown

NUMBERS = ("FLOAT", "INT", "BOOLEAN")
COLOURS = ("COLOR", "COLOR_GAMMA")


@dataclass(frozen=True)
class Target:
    """A property or item of `owner`, which can be set; of a colour the part (0 hue, 1 saturation, 2 value)."""

    path: DataPath
    owner: Any
    key: str
    # What Blender says of the property; None for a custom one.
    about: Any = None
    index: int | None = None
    part: int | None = None

    @property
    def is_pointer(self) -> bool:
        """Whether it takes a data-block, such as an object's mesh, and no number."""
        return self.about is not None and self.about.type == "POINTER"

    @property
    def place(self) -> str:
        """What one colour is told by, whatever path leads to it."""
        return f"{self.owner.as_pointer()} {self.key}"

    @property
    def colour(self) -> tuple[float, ...]:
        """The colour that is there, with its alpha if it has one."""
        return tuple(getattr(self.owner, self.key))

    def get(self) -> Any:
        """Return what is there now."""
        found = getattr(self.owner, self.key) if self.about is not None else self.owner[self.key]
        if self.part is not None:
            return colorsys.rgb_to_hsv(*found[:3])[self.part]
        return found if self.index is None else found[self.index]

    def set(self, value: Any) -> None:
        """Put a number or a data-block there."""
        if self.about is None:
            self._set_custom(value)
            return
        if isinstance(self.owner, bpy.types.MaterialSlot):
            # The object wears the material. Its mesh, which another may share, is left as it is.
            self.owner.link = "OBJECT"
        if self.about.type in ("INT", "BOOLEAN"):
            value = int(value) if self.about.type == "INT" else bool(value)
        if self.index is not None:
            getattr(self.owner, self.key)[self.index] = value
        else:
            setattr(self.owner, self.key, value)

    def set_colour(self, base: tuple[float, ...], parts: dict[int, float]) -> None:
        """Put the colour `base` there, with these of its hue, saturation and value instead of its own."""
        hsv = [parts.get(part, own) for part, own in enumerate(colorsys.rgb_to_hsv(*base[:3]))]
        setattr(self.owner, self.key, (*colorsys.hsv_to_rgb(hsv[0] % 1, *hsv[1:]), *base[3:]))

    def _set_custom(self, value: float) -> None:
        # A custom property keeps its type, which a driver or a node may rely on.
        kind = type(self.owner[self.key])
        self.owner[self.key] = kind(value)

    def limits(self) -> tuple[float, float] | None:
        """Return the lowest and highest number that Blender takes there."""
        if self.about is None or self.part is not None:
            return None if self.part is None else (0.0, float("inf") if self.part != 1 else 1.0)
        return (0, 1) if self.about.type == "BOOLEAN" else (self.about.hard_min, self.about.hard_max)

    @property
    def is_whole(self) -> bool:
        """Whether it takes whole numbers alone."""
        kind = type(self.get()) if self.about is None else {"INT": int, "BOOLEAN": bool}.get(self.about.type)
        return kind in (int, bool)

    def check_free(self) -> None:
        """Raise UserError if an animation or a driver sets it too, and would have the last word."""
        block = self.owner.id_data
        moving = getattr(block, "animation_data", None)
        if moving is None:
            return
        above = "" if isinstance(self.owner, bpy.types.ID) else self.owner.path_from_id()
        place = f'{above}["{self.key}"]' if self.about is None else f"{above}.{self.key}".lstrip(".")
        for curve in (*moving.drivers, *(moving.action.fcurves if moving.action else ())):
            if curve.data_path == place and self.index in (None, curve.array_index):
                raise UserError(f"{self.path.text} is set by an animation or a driver of the .blend; remove that one.")


def find(path: DataPath) -> Target:
    """Return what the path leads to in the open .blend; raise UserError, which says where it ends, if nothing."""
    known = getattr(bpy.data, path.collection)
    if path.first not in known:
        raise unknown(COLLECTIONS[path.collection], path.first, known.keys())
    thing, steps = known[path.first], path.steps
    if not steps:
        raise UserError(f"{path.text} has nothing behind the name that could be set, such as .location[0].")
    for k, step in enumerate(steps[:-1]):
        rest = steps[k + 1 :]
        about = _about(path, thing, step)
        # The last steps name a number in an array, or a part of a colour.
        if len(rest) == 1 and _length(about):
            return _in_array(path, thing, step, about, rest[0])
        thing = _walk(path, thing, step)
    return _last(path, thing, steps[-1])


def _length(about: Any) -> int:
    """Return how many numbers a property has, if it is an array."""
    return int(getattr(about, "array_length", None) or 0)


def _about(path: DataPath, thing: Any, step: Step) -> Any:
    if not step.name:
        return None
    properties = getattr(thing, "bl_rna", None)
    if not isinstance(thing, bpy.types.bpy_struct) or properties is None:
        raise UserError(f"{path.text} has no part {step.name!r}: what is there has no names.")
    if step.name not in properties.properties:
        kind = properties.identifier
        raise UserError(f"{path.text}: {unknown(f'property of {kind}', step.name, properties.properties.keys())}")
    return properties.properties[step.name]


def _walk(path: DataPath, thing: Any, step: Step) -> Any:
    if step.name:
        found = getattr(thing, step.name)
    else:
        is_list = isinstance(thing, bpy.types.bpy_prop_collection)
        if not is_list and step.item not in _custom(thing):
            raise UserError(f"{path.text} has no item [{step.item!r}].")
        try:
            found = thing[step.item]
        except (KeyError, IndexError, TypeError):
            if isinstance(step.item, str):
                raise UserError(f"{path.text}: {unknown('item', step.item, thing.keys())}") from None
            raise UserError(f"{path.text} has no item [{step.item}], of {len(thing)}.") from None
    if found is None:
        raise UserError(f"{path.text} leads through {step.name or step.item!r}, where there is nothing.")
    return found


def _custom(thing: Any) -> list[str]:
    """Return the names of a thing's custom properties, and of the inputs of a modifier made of nodes."""
    try:
        return list(thing.keys()) if isinstance(thing, bpy.types.bpy_struct) else []
    except TypeError:
        return []


def _in_array(path: DataPath, owner: Any, step: Step, about: Any, last: Step) -> Target:
    _check_open(path, owner, step.name, about)
    if last.name in COLOUR_PARTS and about.subtype in COLOURS:
        return Target(path, owner, step.name, about, part=COLOUR_PARTS.index(last.name))
    if isinstance(last.item, int) and last.item < about.array_length:
        return Target(path, owner, step.name, about, last.item)
    shown = f"[{last.item!r}]" if last.item is not None else f".{last.name}"
    raise UserError(f"{path.text} has no {shown}: it ends with [0] to [{about.array_length - 1}].")


def _last(path: DataPath, owner: Any, step: Step) -> Target:
    if step.name in COLOUR_PARTS and (colour := _colour_of(path, owner)):
        return Target(path, *colour, part=COLOUR_PARTS.index(step.name))
    if not step.name:
        if isinstance(step.item, str) and step.item in _custom(owner):
            if type(owner[step.item]) not in (int, float, bool):
                raise UserError(f"{path.text} is a custom property that is no number.")
            return Target(path, owner, step.item)
        raise UserError(f"{path.text} names no number that could be set.")
    about = _about(path, owner, step)
    _check_open(path, owner, step.name, about)
    if _length(about):
        more = " or with .hue, .saturation or .value" if about.subtype in COLOURS else ""
        raise UserError(f"{path.text} is several numbers: end it with [0] to [{about.array_length - 1}]{more}.")
    return Target(path, owner, step.name, about)


def _check_open(path: DataPath, owner: Any, name: str, about: Any) -> None:
    if about.type not in (*NUMBERS, "POINTER"):
        raise UserError(f"{path.text} is no number: it is of Blender's type {about.type}.")
    if about.is_readonly or owner.is_property_readonly(name):
        raise UserError(f"{path.text} can only be read.")


def _colour_of(path: DataPath, thing: Any) -> tuple[Any, str, Any] | None:
    """Return owner, name and description of the colour of a material, light or object; None of anything else."""
    if isinstance(thing, bpy.types.Material):
        return _colour_of_material(path, thing)
    if isinstance(thing, bpy.types.Light | bpy.types.Object):
        return thing, "color", thing.bl_rna.properties["color"]
    return None


def _colour_of_material(path: DataPath, material: Any) -> tuple[Any, str, Any]:
    output = material.node_tree.get_output_node("CYCLES") if material.use_nodes else None
    links = output.inputs["Surface"].links if output else ()
    sockets = [socket for link in links for socket in link.from_node.inputs if socket.name in ("Base Color", "Color")]
    if len(sockets) != 1 or sockets[0].is_linked or sockets[0].type != "RGBA":
        raise UserError(
            f"{path.text} needs a material whose surface has one colour of its own, without a link; "
            'name another socket, as in .node_tree.nodes["…"].inputs["…"].default_value.hue.'
        )
    return sockets[0], "default_value", sockets[0].bl_rna.properties["default_value"]
