"""A user's .blend as a scene: its factors set numbers, or choose among objects, cameras, meshes and materials."""

import re
from collections.abc import Sequence
from typing import Any, Final

from ident3d.blender_scenes.blend_file import open_blend
from ident3d.blender_scenes.blend_target import Target, find
from ident3d.blender_scenes.blender import bpy, current_scene
from ident3d.blender_scenes.factors_file import FactorsFile, Mapped, read_factors
from ident3d.blender_scenes.scene import Focus, Scene, Values
from ident3d.errors import UserError, check_known

_DATA: Final = {"objects": "objects", "cameras": "objects", "meshes": "meshes", "materials": "materials"}


class BlendScene(Scene):
    """A .blend and what its factors file says. No code of either is ever run.

    Args:
        content: The bytes of the .blend.
        text: The text of the factors file.
    """

    def __init__(self, content: bytes, text: str) -> None:
        self.content = content
        self.file: FactorsFile = read_factors(text)
        self.factors = tuple(mapped.factor for mapped in self.file.factors)
        self.undriven: list[str] = []

    def build(self) -> None:
        """Open the .blend, and check that all that the factors file names is there."""
        self.undriven = open_blend(self.content, self.file.scene)
        scene: Any = current_scene()
        if self.file.camera:
            scene.camera = named("cameras", self.file.camera)
        given = self._given_meshes()
        for name, mesh in self.file.meshes.items():
            thing = named("objects", name)
            if thing.type != "MESH":
                raise UserError(f"[meshes] names {name}, which has no mesh.")
            dress([given[mesh]] if mesh in given else [], thing)
            thing.data = named("meshes", mesh)
        for name in (*(self.file.focus or ()), *filter(None, [self.file.light])):
            if named("objects", name).name not in scene.objects:
                raise UserError(f"[focus] names {name}, which is not in the scene that the .blend shows.")
        # Hidden for good in the file, or only when another is shown.
        self.hidden = {thing.name: bool(thing.hide_render) for thing in bpy.data.objects}
        self.colours: dict[str, tuple[float, ...]] = {}
        # Where a factor chooses the camera, views do not.
        if not any(mapped.choice == "cameras" for mapped in self.file.factors):
            self.cameras = tuple(thing.name for thing in scene.objects if thing.type == "CAMERA")
        for mapped in self.file.factors:
            try:
                self._check(mapped, given)
            except UserError as error:
                raise UserError(f"factors.{mapped.factor.name}: {error}") from None

    def _given_meshes(self) -> dict[str, Any]:
        """Return the meshes of --mesh, which are among those of the .blend from now on."""
        used = {*self.file.meshes.values(), *(name for each in self.file.factors for name in each.names)}
        for name in self.mesh_files:
            if name in bpy.data.meshes:
                raise UserError(f"The .blend has a mesh {name!r} already; take another name than --mesh {name}.")
        return {name: self.mesh(name) for name in self.mesh_files if name in used}

    def _check(self, mapped: Mapped, given: dict[str, Any]) -> None:
        for name in mapped.names:
            thing = named(mapped.choice, name)
            if mapped.choice in ("objects", "cameras") and thing.name not in current_scene().objects:
                raise UserError(f"the object {name} is not in the scene that the .blend shows.")
        for path in mapped.paths:
            target = find(path)
            target.check_free()
            before = target.get()
            if target.is_pointer != bool(mapped.choice):
                kind = "a place for a data-block" if target.is_pointer else "a number"
                raise UserError(
                    f"{path.text} is {kind}, and the factor gives {'names' if mapped.choice else 'numbers'}."
                )
            if mapped.choice:
                dress([given[name] for name in mapped.names if name in given], target.owner)
                for name in mapped.names:
                    put(target, named(mapped.choice, name))
                target.set(before)
            else:
                check_numbers(mapped, target)

    def pose(self, values: Values) -> None:
        """Choose first, because a path may lead through what is chosen; then set all numbers."""
        chosen = [mapped for mapped in self.file.factors if mapped.choice]
        for mapped in chosen:
            name = mapped.names[mapped.factor.values.index(values[mapped.factor.name])]
            if mapped.choice == "cameras":
                current_scene().camera = named("cameras", name)
            elif not mapped.paths:
                self._show(mapped.names, name)
        # Materials go last: they lie on the mesh that is worn.
        for mapped in sorted(chosen, key=lambda mapped: mapped.choice == "materials"):
            name = mapped.names[mapped.factor.values.index(values[mapped.factor.name])]
            for path in mapped.paths:
                put(find(path), named(mapped.choice, name))
        colours: dict[str, tuple[Target, dict[int, float]]] = {}
        for mapped in self.file.factors:
            for path in () if mapped.choice else mapped.paths:
                target, number = find(path), values[mapped.factor.name]
                if target.part is None:
                    put(target, number)
                else:
                    colours.setdefault(target.place, (target, {}))[1][target.part] = number
        for place, (target, parts) in colours.items():
            # Only this method changes colours, so the first one that is met is the file's.
            target.set_colour(self.colours.setdefault(place, target.colour), parts)

    def _show(self, names: tuple[str, ...], shown: str) -> None:
        """Show one of these objects, with what hangs on it, and hide the others."""
        for name in (*(name for name in names if name != shown), shown):
            thing: Any = bpy.data.objects[name]
            thing.hide_render = name != shown
            for child in thing.children_recursive:
                child.hide_render = name != shown or self.hidden[child.name]

    def focus(self) -> Focus | None:
        """Return the objects that the factors file names, and the light; None without [focus]."""
        if self.file.focus is None:
            return None
        light = bpy.data.objects[self.file.light] if self.file.light else None
        return Focus([bpy.data.objects[name] for name in self.file.focus], light, self.file.ground)


def dress(meshes: Sequence[Any], owner: Any) -> None:
    """Give meshes that have no material those of the object that is to wear them."""
    own = getattr(getattr(owner, "data", None), "materials", ())
    for mesh in meshes:
        for material in () if len(mesh.materials) else own:
            mesh.materials.append(material)


def named(choice: str, name: str) -> Any:
    """Return the object, camera, mesh or material of this name in the open .blend."""
    known = getattr(bpy.data, _DATA[choice])
    names = [each.name for each in known if choice != "cameras" or each.type == "CAMERA"]
    check_known({"meshes": "mesh"}.get(choice, choice.removesuffix("s")), name, names)
    return known[name]


def check_numbers(mapped: Mapped, target: Target) -> None:
    """Raise UserError if Blender does not take the factor's numbers as they are."""
    factor, text = mapped.factor, target.path.text
    numbers = factor.listed.tolist() if factor.values else list(factor.bounds)
    if limits := target.limits():
        for number in numbers:
            if not limits[0] <= number <= limits[1]:
                raise UserError(f"{text} is from {limits[0]:g} to {limits[1]:g}, and the factor gives {number:g}.")
    if target.is_whole and not (factor.values and all(number == int(number) for number in numbers)):
        raise UserError(f"{text} takes whole numbers: list them, as in values = [{', '.join(map(str, (0, 1)))}].")
    if target.part is None:
        before = target.get()
        for number in numbers:
            put(target, number)
        target.set(before)


def put(target: Target, value: Any) -> None:
    """Put a number or a data-block where the target is; what Blender says against it is one sentence."""
    try:
        target.set(value)
    except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        said = re.sub(r"^bpy_struct: item\.attr = val: ", "", str(error).splitlines()[0])
        raise UserError(f"{target.path.text} cannot be set: {said}.") from None
