"""Scenes: ours from the settings of a dataset, and a user's own from a Python file, or a .blend and its factors."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ident3d.blender_scenes.scene_files import SceneFile, known_file, read_scene_file
from ident3d.errors import UserError, check_known, os_errors
from ident3d.farm.bpy_libraries import require_bpy
from ident3d.latents.factor import check_factor_name
from ident3d.latents.factors import Factors, SceneSource
from ident3d.latents.worlds import World
from ident3d.loaders.format.files import sha256
from ident3d.shapes.parse import Triangles, parse
from ident3d.shapes.rendering import load_meshes

if TYPE_CHECKING:
    from ident3d.blender_scenes.scene import Scene

EXAMPLE = "mine.py:Lamp"
# What stands for the file of a scene that ident3d brings along, and the file of each of them.
SHIPPED = "examples"
SHIPPED_FILES = {"Objects": "objects.py", "Camera": "camera.py"}
# What the .blend is to its scene.
BLEND = "blend"
# What a mesh is to it, before the mesh's name.
MESH = "mesh "
LARGEST_FACTORS = 1_000_000
# So long may the trial of a scene take to build it, to pose it once, or to render one small image.
STEP_SECONDS = 120.0


@dataclass(frozen=True)
class OwnScene(Factors):
    """The factors and cameras of a user's own scene, the text of its file, and the files that it does not hold."""

    text: str = field(default="", repr=False)
    files: tuple[SceneFile, ...] = ()
    # What views may be seen from.
    cameras: tuple[str, ...] = ()
    # A sentence on objects in focus that leave the frame, for who renders; empty if none does.
    leaving: str = field(default="", repr=False, compare=False)
    # The same on what a .blend would set by code.
    undriven: str = field(default="", repr=False, compare=False)


def load_scene(
    path: Path | str,
    fixed: Mapping[str, float | str] | None = None,
    *,
    factors: Path | str | None = None,
    meshes: Mapping[str, Path | str] | None = None,
    graph: Path | str | None = None,
    do: Mapping[str, float | str] | None = None,
    hidden: bool = False,
) -> OwnScene:
    """Return a scene of your own, from the Python file that it is written in, or from a .blend and its factors.

    It is tried in another process, which builds the stage, poses it at both ends or all listed values of every factor,
    and renders small images: a scene whose images depend on those before is refused, and so is a factor that changes no
    pixel, unless others depend on it in the graph. A Python file is run there: it may import what is installed, and no
    other file of yours. Of a .blend nothing is ever run.

    Args:
        path: The file and the class below `Scene` in it, such as "mine.py:Lamp", or a .blend; "examples:Objects" and
            "examples:Camera" come with ident3d.
        fixed: Factor or group → its raw value in [-1, 1], or the name of one of its values.
        factors: The TOML file that maps the factors of the .blend to data paths.
        meshes: Name → an .obj, .ply or .stl file: what `Scene.mesh` returns, or a mesh that the TOML file names.
        graph: A TOML file that says how factors depend on one another; without it they are independent.
        do: Interventions: factor or group → its raw value, the name of one of its values, or what it is drawn from,
            such as "normal(0.5 * x, 0.1)".
        hidden: Accept factors that change no pixel, as for a graph that is yet to be written.

    Returns:
        The world to render, as in ``Recipe(load_scene("mine.py:Lamp"))``.
    """
    shapes = tuple(_read_mesh(*mesh) for mesh in (meshes or {}).items())
    held: dict[str, Any] = {"fixed": fixed or {}, "do": do or {}}
    told = {"held": held, "graph": None if graph is None else str(graph), "hidden": hidden}
    if is_blend(path):
        return replace(_load_blend(path, factors, shapes, told), graph=graph, **held)
    if factors is not None:
        raise UserError(f"--factors goes with a .blend, and {path} is none: a Python file declares its own factors.")
    file, _, name = str(path).rpartition(":")
    if not file or not name.isidentifier():
        raise UserError(f"A scene of your own is named by its file and class, such as {EXAMPLE}, not {path!r}.")
    require_bpy()
    text = example_text(name) if file == SHIPPED else _read_text(file, "Python")
    found = _tried(str(path), file, {"name": name, "text": text, **told}, shapes)
    source = SceneSource(name, sha256(text.encode()))
    return replace(found, own_scene=source, text=text, files=shapes, graph=graph, **held)


def example_text(name: str) -> str:
    """Return the file of a scene that ident3d brings along, to render it or to start a user's own from."""
    check_known("example", name, SHIPPED_FILES)
    return files("ident3d.examples").joinpath(SHIPPED_FILES[name]).read_text("utf-8")


def is_blend(path: Path | str) -> bool:
    """Return whether a scene is named by a .blend."""
    return str(path).lower().endswith(".blend")


def _read_mesh(name: str, path: Path | str) -> SceneFile:
    """Return the file of a mesh, once it is known to hold one."""
    check_factor_name(name, "mesh")
    found = read_scene_file(MESH + name, path)
    mesh_of(found)
    return found


def mesh_of(file: SceneFile) -> Triangles:
    """Return the vertices and faces in a file."""
    return parse(Path(file.path).name, file.read())


def _load_blend(
    path: Path | str,
    factors: Path | str | None,
    shapes: tuple[SceneFile, ...],
    told: Mapping[str, Any],
) -> OwnScene:
    if factors is None:
        raise UserError(f"{path} needs --factors, a TOML file that maps its factors to data paths, such as desk.toml.")
    require_bpy()
    text = _read_text(factors, "TOML")
    if len(text) > LARGEST_FACTORS:
        raise UserError(f"{factors} is larger than {LARGEST_FACTORS // 10**6} MB.")
    blend = read_scene_file(BLEND, path)
    name = blend_name(path, text)
    given = {"name": name, "text": text, "blend": blend.path, "sha256": blend.sha256, **told}
    found = _tried(str(path), f"{path} with {factors}", given, shapes)
    source, kept = SceneSource(name, sha256(text.encode())), (blend, *shapes)
    return replace(found, own_scene=source, text=text, files=kept)


def blend_name(path: Path | str, text: str) -> str:
    """Return what the scene of a .blend is called: as its factors file says, else after its own file."""
    try:
        given = tomllib.loads(text).get("name")
    except (ValueError, RecursionError):
        # What is wrong is said when the scene is tried.
        given = None
    if given and not (isinstance(given, str) and given.isidentifier() and given.isascii() and len(given) <= 64):
        raise UserError(f"The name of a scene is one word, such as Desk, not {given!r}.")
    return given or re.sub(r"\W", "_", Path(path).stem, flags=re.ASCII)[:64].lstrip("0123456789") or "blend"


def _read_text(file: Path | str, kind: str) -> str:
    with os_errors(f"{file} cannot be read"):
        content = Path(file).read_bytes()
    try:
        # Windows may begin a file with a byte order mark, which is no part of the text.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not a {kind} file in UTF-8: {error}.") from None


def _tried(path: str, shown: str, given: Mapping[str, Any], shapes: tuple[SceneFile, ...]) -> OwnScene:
    """Return the factors and cameras of a scene that was tried in another process; UserError if that failed."""
    # -P: a worker does not see the current folder, so that nothing must be imported from there now.
    command = [sys.executable, "-P", "-m", "ident3d.blender_scenes.try_scene"]
    with TemporaryDirectory() as folder:
        meshes = {file.use.removeprefix(MESH): f"{folder}/{k}.npz" for k, file in enumerate(shapes)}
        for file, where in zip(shapes, meshes.values(), strict=True):
            np.savez(where, **mesh_of(file)._asdict())
        # What is held may be of any kind: it is checked here, once its factors are known.
        told = {**given, "meshes": meshes, "step_seconds": STEP_SECONDS}
        told_text = json.dumps(told, default=str, skipkeys=True)
        done = subprocess.run(command, input=told_text, capture_output=True, text=True, check=False)
    # Blender may print lines of its own first, and the scene when Python ends.
    *_, last = [line for line in done.stdout.splitlines() if line.startswith("{")] or [""]
    if done.returncode or not last:
        raise UserError(f"The scene {path} cannot be loaded: {_ending(done)}.")
    answer = json.loads(last)
    if "error" in answer:
        raise UserError(f"{shown}: {answer['error']}")
    found = Factors.from_dict(answer)
    return OwnScene(
        found.factors, cameras=tuple(answer["cameras"]), leaving=answer["leaving"], undriven=answer["undriven"]
    )


def _ending(done: "subprocess.CompletedProcess[str]") -> str:
    """Return why a trial gave no answer: it was too slow in some line of the file, or what it said last."""
    from ident3d.blender_scenes.own_file import SCENE_FILE

    if "Timeout (" in done.stderr:
        # What Python was doing when the time was over, the innermost call first.
        at = re.search(rf'File "{SCENE_FILE}", line (\d+) in (\S+)', done.stderr)
        where = "its file" if at and at[2] == "<module>" else f"`{at[2]}`" if at else ""
        what = f"{where} is still in line {at[1]}" if at else "Blender is still at work"
        return f"{what} after {STEP_SECONDS:g} s, where a build, a pose or a small image takes seconds"
    *_, said = done.stderr.strip().splitlines() or [f"its process ended with exit code {done.returncode}"]
    return said


def scene_of(settings: Mapping[str, Any]) -> "Scene":
    """Return the scene that the settings of a recipe describe. Of a user's own Python file the code is run."""
    # These are never the settings that a folder has alone: who renders has compared them with what the user gave.
    from ident3d.blender_scenes.blend_scene import BlendScene
    from ident3d.blender_scenes.own_file import own_scene
    from ident3d.blender_scenes.three_d_ident import ThreeDIdent

    files = settings.get("scene_files", {})
    if own := settings["world"].get("own_scene"):
        text: str = settings["scene_text"]
        is_code = BLEND not in files
        scene = own_scene(own["name"], text) if is_code else BlendScene(known_file(files[BLEND]).read(), text)
        shapes = {use: known_file(digest) for use, digest in files.items() if use.startswith(MESH)}
        scene.mesh_files = {use.removeprefix(MESH): mesh_of(file) for use, file in shapes.items()}
        return scene
    world, meshes = World.from_dict(settings["world"]), load_meshes(settings.get("meshes", {}))
    return ThreeDIdent(world, material=settings["material"], meshes=meshes)
