"""The TOML that maps the factors of a .blend to data paths. It is read and checked here; it names no code."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ident3d.blender_scenes.data_path import COLOUR_PARTS, DataPath, read_path
from ident3d.errors import UserError, check_known
from ident3d.latents.factor import Factor

LARGEST_FILE: Final = 1_000_000
# What a categorical factor may choose among, and what it then sets without a path.
CHOICES: Final = ("objects", "cameras", "meshes", "materials")
_OF_FACTOR: Final = ("kind", "range", "values", "group", "path", *CHOICES)
_OF_FILE: Final = ("name", "scene", "camera", "factors", "focus", "meshes")
_OF_FOCUS: Final = ("objects", "light", "ground")


@dataclass(frozen=True)
class Mapped:
    """A factor, the places that its number goes to, or the collection and names that it chooses among."""

    factor: Factor
    paths: tuple[DataPath, ...]
    choice: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class FactorsFile:
    """All that a factors file says."""

    name: str
    scene: str
    camera: str
    factors: tuple[Mapped, ...]
    # Object → the mesh that it wears in all images.
    meshes: Mapping[str, str]
    focus: tuple[str, ...] | None
    light: str
    ground: float


def read_factors(text: str) -> FactorsFile:
    """Return what the text of a factors file says; raise UserError for the first thing that is wrong in it.

    Example:
        >>> from ident3d.blender_scenes.factors_file import read_factors
        >>> text = '''
        ... [factors.x]
        ... range = [-2, 2]
        ... path = 'objects["Cube"].location[0]'
        ... '''
        >>> read_factors(text).factors[0].factor.bounds
        (-2.0, 2.0)
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError, OverflowError) as error:
        raise UserError(f"The factors file is no TOML: {error}.") from None
    _check_keys("the factors file", content, _OF_FILE)
    found = content.get("factors")
    if not isinstance(found, dict) or not found:
        raise UserError("The factors file has no factor: each is a table such as [factors.height].")
    focus = content.get("focus")
    if focus is not None:
        _check_keys("[focus]", focus, _OF_FOCUS)
    return FactorsFile(
        name=_text("name", content.get("name", "")),
        scene=_text("scene", content.get("scene", "")),
        camera=_text("camera", content.get("camera", "")),
        factors=tuple(_mapped(name, table) for name, table in found.items()),
        meshes={name: _text(f"meshes.{name}", mesh) for name, mesh in _table("meshes", content).items()},
        focus=None if focus is None else _texts("focus.objects", focus.get("objects", [])),
        light=_text("focus.light", (focus or {}).get("light", "")),
        ground=_number("focus.ground", (focus or {}).get("ground", 0.0)),
    )


def _mapped(name: str, table: Any) -> Mapped:
    where = f"factors.{name}"
    _check_keys(f"[{where}]", table, _OF_FACTOR)
    choices = [choice for choice in CHOICES if choice in table]
    if len(choices) > 1:
        raise UserError(f"{where} has {' and '.join(choices)}; a factor chooses among one of them.")
    names = _texts(f"{where}.{choices[0]}", table[choices[0]]) if choices else ()
    kind = _text(f"{where}.kind", table.get("kind", "categorical" if choices else "box"))
    values = _values(f"{where}.values", table.get("values", list(names)))
    if choices and (kind != "categorical" or len(values) != len(names) or len(names) < 2):
        raise UserError(
            f"{where} chooses among {choices[0]}: it is categorical, with two names or more, and as many values if any."
        )
    if not choices and any(isinstance(value, str) for value in values):
        raise UserError(f"{where} has values that are names: say what they stand for, by {', '.join(CHOICES)}.")
    low_high = table.get("range")
    if low_high is not None:
        if not isinstance(low_high, list) or len(low_high) != 2:
            raise UserError(f"{where}.range is a lower and a higher number, such as [-1, 1].")
        low_high = tuple(_number(f"{where}.range", value) for value in low_high)
    factor = Factor(name, kind, low_high, values, _text(f"{where}.group", table.get("group", "")))
    paths = _paths(where, table)
    if not paths and choices not in (["objects"], ["cameras"]):
        raise UserError(f"{where} has no path, such as path = 'objects[\"Cube\"].location[0]'.")
    if choices == ["cameras"] and paths:
        raise UserError(f"{where} chooses the camera, and has no path.")
    _check_hues(factor, paths)
    return Mapped(factor, paths, "".join(choices), names)


def _paths(where: str, table: dict[str, Any]) -> tuple[DataPath, ...]:
    given = table.get("path", [])
    found = []
    for text in _texts(f"{where}.path", [given] if isinstance(given, str) else given):
        try:
            found.append(read_path(text))
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
    return tuple(found)


def _check_hues(factor: Factor, paths: tuple[DataPath, ...]) -> None:
    for path in paths:
        last = path.steps[-1].name if path.steps else ""
        if last in COLOUR_PARTS and factor.kind == "periodic" and (last != "hue" or factor.bounds != (0.0, 1.0)):
            raise UserError(f"{factor.name}: of a colour only the hue is periodic, with the range [0, 1].")


def _check_keys(where: str, table: Any, known: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise UserError(f"In the factors file {where} is a table, not {table!r}.")
    for key in table:
        check_known(f"setting of {where}", key, known)


def _table(name: str, content: dict[str, Any]) -> dict[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise UserError(f"In the factors file [{name}] is a table, not {found!r}.")
    return found


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(f"In the factors file {where} is a text, not {value!r}.")
    return value


def _texts(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UserError(f"In the factors file {where} is a list of texts, not {value!r}.")
    if len(set(value)) < len(value):
        raise UserError(f"In the factors file {where} has a text twice.")
    return tuple(value)


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"In the factors file {where} takes numbers, not {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        raise UserError(f"In the factors file {where} has a number that is too large.") from None
    if not math.isfinite(number):
        raise UserError(f"In the factors file {where} takes finite numbers, not {number}.")
    return number


def _values(where: str, value: Any) -> tuple[float | str, ...]:
    if not isinstance(value, list):
        raise UserError(f"In the factors file {where} is a list, not {value!r}.")
    return tuple(each if isinstance(each, str) else _number(where, each) for each in value)
