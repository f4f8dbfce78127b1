"""What a scene is: its factors, a stage that is built once, and how one row of values poses it."""

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from ident3d.errors import UserError, check_known
from ident3d.latents.factor import Factor

# Factor → its value in scene units, or its name if the factor has a list of names.
Values = Mapping[str, Any]
# A message names so many factors at most.
SAID = 5


class Focus(NamedTuple):
    """What needs most samples: the box around these objects, and the box around the shadow that a light casts of them.

    Hidden objects do not count. The shadow lies on the plane z = `ground`. Without a light there is no second box.
    """

    objects: Sequence[Any]
    light: Any = None
    ground: float = 0.0


class Scene:
    """What to render. A scene of your own is a class below this one that has `factors`, `build` and `pose`.

    An image must depend on its row of values alone, and images are rendered in any order. So `pose` sets everything
    that any row changes, and draws nothing at random.

    Example:
        >>> from ident3d import Factor, Scene
        >>> class Ball(Scene):
        ...     factors = (Factor("height", range=(0, 2)), Factor("colour", "categorical", values=("red", "blue")))
        ...
        ...     def build(self):
        ...         import bpy
        ...
        ...         bpy.ops.mesh.primitive_uv_sphere_add()
        ...         self.ball = bpy.context.object
        ...         bpy.ops.object.light_add(type="SUN")
        ...         bpy.ops.object.camera_add(location=(0, -8, 1), rotation=(1.57, 0, 0))
        ...         bpy.context.scene.camera = bpy.context.object
        ...
        ...     def pose(self, values):
        ...         self.ball.location.z = values["height"]
        ...         self.ball.color = (1, 0, 0, 1) if values["colour"] == "red" else (0, 0, 1, 1)
        >>> [factor.name for factor in Ball.factors]
        ['height', 'colour']
    """

    # In the order of the latents.
    factors: Sequence[Factor] = ()
    # What views may be seen from: names of camera objects that `build` makes.
    cameras: Sequence[str] = ()
    # Into how many equal lights in one place a strong light is best split at this quality: see `Quality.spots`. It is
    # set before `build` is called.
    light_parts: int = 1
    # Name → vertices (V, 3) and faces (F, 3) of the meshes that were given by files, as with --mesh.
    mesh_files: Mapping[str, tuple[Any, Any]] = MappingProxyType({})
    # Those of them that `build` has taken.
    meshes_taken: Set[str] = frozenset()

    def build(self) -> None:
        """Fill the empty Blender scene, once: objects, lights, materials, and the camera as ``scene.camera``."""
        raise NotImplementedError

    def mesh(self, name: str) -> Any:
        """Return a new Blender mesh, from the file that was given by this name: ``--mesh Cup=cup.stl``.

        It has the file's units, and no material. It is for `build`.
        """
        from ident3d.blender_scenes.meshes import mesh_of_file

        if not self.mesh_files:
            raise UserError(f"The scene takes a mesh {name!r}, which is given by a file, as in --mesh {name}=file.obj.")
        check_known("mesh", name, self.mesh_files)
        self.meshes_taken = {*self.meshes_taken, name}
        return mesh_of_file(name, *self.mesh_files[name])

    def pose(self, values: Values) -> None:
        """Move and recolour what is there, by factor → its value in scene units, or its name if it has names.

        In a scene with classes, ``values["class"]`` is the name of the image's class.
        """
        raise NotImplementedError

    def look(self, camera: str) -> None:
        """See the scene, as it is posed now, from one of `cameras`: by default from the camera object of that name."""
        from ident3d.blender_scenes.blender import bpy, current_scene

        current_scene().camera = bpy.data.objects[camera]

    def focus(self) -> Focus | None:
        """Return what needs most samples, as it is posed now; None if all pixels do."""
        return None


def said_row(factors: Sequence[Factor], row: Iterable[float]) -> str:
    """Return a row of scene values as a message names it: slide=0.98, shape=cube."""
    shown = ((factor.name, factor.shown(value)) for factor, value in islice(zip(factors, row, strict=True), SAID))
    return ", ".join(f"{name}={value if isinstance(value, str) else f'{value:.4g}'}" for name, value in shown)
