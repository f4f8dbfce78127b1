"""Data paths, such as ``objects["Cube"].location[0]``: read by a small grammar, and never evaluated.

    path = collection "[" text "]" { "." name | "[" number "]" | "[" text "]" }

A text stands in double or single quotes, where a backslash goes before a quote or another backslash.
"""

import re
from dataclasses import dataclass
from typing import Final

from ident3d.errors import UserError, check_known

# The data of a .blend that a path may begin with. Scenes, texts and preferences are not among them.
COLLECTIONS: Final = {
    "objects": "object", "lights": "light", "materials": "material", "cameras": "camera", "meshes": "mesh",
    "curves": "curve", "metaballs": "metaball", "worlds": "world", "node_groups": "node group",
    "shape_keys": "shape key", "textures": "texture", "lattices": "lattice", "armatures": "armature",
}  # fmt: skip
# What a path may end with if it names a colour, or a material, light or object, which has one.
COLOUR_PARTS: Final = ("hue", "saturation", "value")
LONGEST_PATH: Final = 500
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_STEP: Final = re.compile(
    r"""\.(?P<name>[A-Za-z][A-Za-z0-9_]*)
      | \[(?P<number>[0-9]{1,6})\]
      | \["(?P<double>(?:[^"\\]|\\["'\\])*)"\]
      | \['(?P<single>(?:[^'\\]|\\["'\\])*)'\]""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Step:
    """One step from a thing to a part of it: the property of this name, or the item of this number or key."""

    name: str = ""
    item: int | str | None = None


@dataclass(frozen=True)
class DataPath:
    """A path as it was written, the collection and the name in it that it begins with, and the steps from there."""

    text: str
    collection: str
    first: str
    steps: tuple[Step, ...]


def read_path(text: str) -> DataPath:
    """Return the data path that a text is; raise UserError if it is none.

    Example:
        >>> from ident3d.blender_scenes.data_path import read_path
        >>> path = read_path('objects["Cube"].location[0]')
        >>> path.collection, path.first, [step.name or step.item for step in path.steps]
        ('objects', 'Cube', ['location', 0])
    """
    shown = text if len(text) <= LONGEST_PATH else f"{text[:40]}…"
    found, steps = _NAME.match(text), list[Step]()
    place = found.end() if found else 0
    while found and place < len(text) <= LONGEST_PATH:
        step = _STEP.match(text, place)
        if step is None:
            break
        steps.append(_step(step))
        place = step.end()
    if not found or place < len(text) or not steps or not isinstance(steps[0].item, str):
        where = f" after {text[:place]}" if 0 < place < len(text) <= LONGEST_PATH else ""
        raise UserError(f'{shown!r} is no data path{where}: one looks like objects["Cube"].location[0].')
    check_known("collection", found[0], COLLECTIONS)
    return DataPath(text, found[0], steps[0].item, tuple(steps[1:]))


def _step(match: re.Match[str]) -> Step:
    if match["name"]:
        return Step(match["name"])
    if match["number"]:
        return Step(item=int(match["number"]))
    quoted = match["single"] if match["double"] is None else match["double"]
    return Step(item=re.sub(r"\\(.)", r"\1", quoted))
