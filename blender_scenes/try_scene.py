"""Try a scene of a user's own in a process of its own: its text comes by standard input, its factors go by the output.

A process that hands out jobs must not load bpy, and the user's file most probably does. A .blend is read from its path.
"""

import faulthandler
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.blend_scene import BlendScene
from ident3d.blender_scenes.blender import current_scene
from ident3d.blender_scenes.effects import (
    LARGE,
    SMALL,
    base_rows,
    leavings,
    random_rows,
    rare_rows,
    sentence,
    without_effect,
)
from ident3d.blender_scenes.own_file import own_scene
from ident3d.blender_scenes.scene import Scene, said_row
from ident3d.blender_scenes.silence import silent
from ident3d.blender_scenes.studio import Studio
from ident3d.errors import UserError, check_known
from ident3d.latents.factors import Factors
from ident3d.latents.own_graph import load_graph

# Rows at random that it is posed at.
TRIED = 8


class Trial(NamedTuple):
    """What a trial found: factors, the cameras that views may be seen from, and sentences on two things.

    `leaving` says what leaves the frame, `undriven` which drivers of a .blend do not run.
    """

    factors: Factors
    cameras: tuple[str, ...]
    leaving: str
    undriven: str


def try_scene(
    name: str,
    text: str,
    blend: bytes | None = None,
    meshes: Mapping[str, tuple[Any, Any]] | None = None,
    *,
    held: Mapping[str, Any] | None = None,
    graph: str | None = None,
    hidden: bool = False,
    start_step: Callable[[], object] = lambda: None,
) -> Trial:
    """Return the factors and cameras, after the stage was built, posed at many rows, and proved to forget.

    The proof: some rows, from each camera, give equal images in this order and, built anew, in the opposite one. Every
    factor must change the image somewhere, unless it sets others in the `graph`, or `hidden` causes may be. `held` is
    what ``load_scene`` calls `fixed` and `do`; `start_step` is called before each build, pose and image.
    """

    def built() -> Scene:
        start_step()
        with silent():
            scene = scene_from(name, text, blend)
            scene.mesh_files = meshes or {}
        return scene

    scene = built()
    factors = Factors(tuple(scene.factors))
    if blend and factors.held:
        raise UserError(f"{next(iter(factors.held))} has a single value, so that it is no factor.")
    rows = factors.to_scene(proof_rows(factors))
    with Studio(scene, size=SMALL, quality="draft") as studio:
        check_stage(name, studio.scene, is_blend=blend is not None)
        for row in factors.to_scene(random_rows(factors, TRIED, seed=1)):
            start_step()
            studio.pose(row)
        found = leavings(studio, factors, held_values(factors, held or {}), start_step)
        cameras = camera_names(scene)
        # Of two cameras or more each has a part in the proof.
        shots = [(row, None) for row in rows] + [(rows[-1 - k % 2], camera) for k, camera in enumerate(cameras)]
        images = []
        for row, camera in shots:
            start_step()
            images.append(studio.render_linear(row, seed=0, camera=camera))
    with Studio(built(), size=SMALL, quality="draft") as studio:
        for (row, camera), image in zip(shots[::-1], images[::-1], strict=True):
            start_step()
            if not np.allclose(studio.render_linear(row, seed=0, camera=camera), image, rtol=1e-4, atol=1e-6):
                said = said_row(factors.factors, row.tolist())
                why = (
                    "two factors may set the same thing, or something that objects share"
                    if blend
                    else "`pose` must set everything that it ever changes, and draw nothing at random"
                )
                raise UserError(f"The image of the scene {name} at {said} depends on the images before it: {why}.")
        several = [each for each in factors.names if each not in {*factors.held, *causes(factors, graph)}]
        idle = [] if hidden else without_effect(studio, factors, base_rows(factors), several, start_step)
    if idle:
        with Studio(built(), size=LARGE, quality="draft") as studio:
            idle = without_effect(studio, factors, rare_rows(factors), idle, start_step, everywhere=False)
        check_effects(idle, blend)
    return Trial(factors, cameras, sentence(found), undriven(scene))


def undriven(scene: Scene) -> str:
    """Return a sentence on the drivers in Python of a .blend, which were taken out; nothing if it has none."""
    found = scene.undriven if isinstance(scene, BlendScene) else []
    if not found:
        return ""
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    has = "have drivers in Python, which do" if more else "has a driver in Python, which does"
    return f"{found[0]}{more} {has} not run here: no code of a .blend does."


def check_stage(name: str, scene: Scene, *, is_blend: bool) -> None:
    """Raise UserError if a stage that was built has no camera, or has not taken a mesh that was given for it."""
    if current_scene().camera is None:
        makes = (
            'say which, as in camera = "Camera"' if is_blend else "`build` makes one, and sets bpy.context.scene.camera"
        )
        raise UserError(f"The scene {name} has no camera: {makes}.")
    for mesh in scene.mesh_files:
        if mesh not in scene.meshes_taken:
            how = "no factor and no [meshes] names it" if is_blend else f"`build` never takes self.mesh({mesh!r})"
            raise UserError(f"--mesh {mesh} has no part in the scene {name}: {how}.")


def causes(factors: Factors, graph: str | None) -> frozenset[str]:
    """Return the factors that others depend on. What is wrong with the graph is said by who asked for the trial."""
    with suppress(UserError):
        return frozenset().union(*load_graph(graph, factors.factors).parents.values()) if graph else frozenset()
    return frozenset()


def held_values(factors: Factors, held: Mapping[str, Any]) -> Mapping[str, float]:
    """Return what is held at which raw value. What is wrong with it is said by who asked for the trial."""
    with suppress(UserError, TypeError, ValueError):
        return replace(factors, **held).held
    return {}


def camera_names(scene: Scene) -> tuple[str, ...]:
    """Return the names of the cameras that the scene offers; raise UserError for one that is not there."""
    name, given = type(scene).__name__, scene.cameras
    if isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise UserError(f"The `cameras` of the scene {name} are a tuple of names, not {given!r}.")
    known = [thing.name for thing in current_scene().objects if thing.type == "CAMERA"]
    for each in given:
        # A scene that looks in a way of its own need not have an object for each.
        if type(scene).look is Scene.look:
            check_known(f"camera object of the scene {name}", each, known)
    # What an option cannot name is not offered.
    return tuple(each for each in given if not set(each) & set(",=|") and each.strip() == each)


def scene_from(name: str, text: str, blend: bytes | None) -> Scene:
    """Return the scene of a .blend and its factors file, or that of a Python file, whose code then runs."""
    return own_scene(name, text) if blend is None else BlendScene(blend, text)


def check_effects(idle: Sequence[str], blend: bytes | None) -> None:
    """Raise UserError for a factor without effect, of which there are these."""
    if idle:
        why = (
            "another factor, or something else in the .blend, has the last word"
            if blend
            else "`pose` does nothing with it"
        )
        raise UserError(
            f"{idle[0]} has no effect on the image, wherever the others were tried: what it sets is hidden or out of "
            f"frame, or {why}; a hidden cause needs a --graph in which others depend on it."
        )


def proof_rows(factors: Factors) -> NDArray[np.float32]:
    """Return raw rows: all factors at one end, all at the other, and two at random."""
    drawn = np.random.default_rng(0).uniform(-1, 1, (2, factors.n_raw))
    # The ends of a circle are one place.
    far = [0 if factor.kind == "periodic" else 1 for factor in factors.factors]
    return factors.nearest(np.array([[-1] * factors.n_raw, far, *drawn], np.float32))


def read_meshes(paths: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
    """Return name → vertices and faces, from arrays that were written to these .npz files."""
    found = {}
    for name, path in paths.items():
        with np.load(path, allow_pickle=False) as file:
            found[name] = file["vertices"], file["faces"]
    return found


def main() -> None:
    """Print the factors, or the sentence that says what is wrong, as JSON in the last line."""
    given = json.load(sys.stdin)
    try:
        blend = Path(given["blend"]).read_bytes() if "blend" in given else None
        if blend is not None and hashlib.sha256(blend).hexdigest() != given["sha256"]:
            raise UserError(f"{given['blend']} was changed while it was read.")
        # In C, and with a file of its own: it ends the process even if Blender holds Python up.
        limit = partial(faulthandler.dump_traceback_later, given["step_seconds"], exit=True, file=os.dup(2))
        shapes = read_meshes(given.get("meshes", {}))
        told = {name: given[name] for name in ("held", "graph", "hidden")}
        found = try_scene(given["name"], given["text"], blend, shapes, **told, start_step=limit)
        answer = found.factors.as_dict() | {
            "cameras": list(found.cameras),
            "leaving": found.leaving,
            "undriven": found.undriven,
        }
    except UserError as error:
        answer = {"error": str(error)}
    except Exception as error:
        said, *_ = str(error).splitlines() or [""]
        answer = {"error": f"The scene {given['name']} cannot be rendered: {type(error).__name__}: {said}."}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
    # Blender 4.5 waits for good, as Python ends, if a user's scene still holds the module bpy.
    sys.stdout.flush()
    os._exit(0)
