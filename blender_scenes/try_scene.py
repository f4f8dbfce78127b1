"""Try a scene of a user's own in a process of its own: its text comes by standard input, its factors go by the output.

A process that hands out jobs must not load bpy, and the user's file most probably does. A .blend is read from its path.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.blend_scene import BlendScene
from ident3d.blender_scenes.blender import current_scene
from ident3d.blender_scenes.own_file import own_scene
from ident3d.blender_scenes.scene import Scene
from ident3d.blender_scenes.silence import silent
from ident3d.blender_scenes.studio import Studio
from ident3d.errors import UserError, check_known
from ident3d.latents.factors import Factors

# A message names so many factors at most.
SAID = 5


def try_scene(
    name: str, text: str, blend: bytes | None = None, meshes: Mapping[str, tuple[Any, Any]] | None = None
) -> tuple[Factors, tuple[str, ...]]:
    """Return the factors and cameras, after the stage was built, posed at many rows, and proved to forget.

    The proof: some rows, from each camera, give equal images in this order and, built anew, in the opposite one. Of a
    .blend, whose factors file is the text, every factor must change the image somewhere.
    """
    with silent():
        scene = scene_from(name, text, blend)
        scene.mesh_files = meshes or {}
    factors = Factors(tuple(scene.factors))
    rows = factors.to_scene(proof_rows(factors))
    with Studio(scene, size=16, quality="draft") as studio:
        if current_scene().camera is None:
            makes = (
                'say which, as in camera = "Camera"'
                if blend
                else "`build` makes one, and sets bpy.context.scene.camera"
            )
            raise UserError(f"The scene {name} has no camera: {makes}.")
        for mesh in scene.mesh_files:
            if mesh not in scene.meshes_taken:
                how = "no factor and no [meshes] names it" if blend else f"`build` never takes self.mesh({mesh!r})"
                raise UserError(f"--mesh {mesh} has no part in the scene {name}: {how}.")
        for row in factors.to_scene(trial_rows(factors)):
            studio.pose(row)
        cameras = camera_names(scene)
        # Of two cameras or more each has a part in the proof.
        shots = [(row, None) for row in rows] + [(rows[-1 - k % 2], camera) for k, camera in enumerate(cameras)]
        images = [studio.render_linear(row, seed=0, camera=camera) for row, camera in shots]
        if blend:
            check_effects(studio, factors)
    with silent():
        again = scene_from(name, text, blend)
        again.mesh_files = meshes or {}
    with Studio(again, size=16, quality="draft") as studio:
        for (row, camera), image in zip(shots[::-1], images[::-1], strict=True):
            if not np.allclose(studio.render_linear(row, seed=0, camera=camera), image, rtol=1e-4, atol=1e-6):
                values = zip(factors.factors, row.tolist(), strict=True)
                said = ", ".join(f"{factor.name}={factor.shown(value)}" for factor, value in islice(values, SAID))
                why = (
                    "two factors may set the same thing, or something that objects share"
                    if blend
                    else "`pose` must set everything that it ever changes, and draw nothing at random"
                )
                raise UserError(f"The image of the scene {name} at {said} depends on the images before it: {why}.")
    return factors, cameras


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


def check_effects(studio: Studio, factors: Factors) -> None:
    """Raise UserError for a factor that changes no pixel, wherever the others are tried."""
    bases = base_rows(factors)
    for k, factor in enumerate(factors.factors):
        if factor.name in factors.held:
            raise UserError(f"{factor.name} has a single value, so that it is no factor.")
        column = factor.to_raw(factor.listed) if factor.values else np.array([-1, 0, 0.7], np.float32)
        if not any(has_effect(studio, factors, base, k, column) for base in bases):
            raise UserError(
                f"{factor.name} has no effect on the image: what it sets is hidden or out of frame, "
                "or something else in the .blend has the last word."
            )


def has_effect(
    studio: Studio, factors: Factors, base: NDArray[np.float32], k: int, column: NDArray[np.float32]
) -> bool:
    """Return whether the image changes as factor k takes the values of the column, the others being as in the base."""
    raw = np.tile(base, (len(column), 1))
    raw[:, k] = column
    first, *others = (studio.render_linear(row, seed=0) for row in factors.to_scene(factors.nearest(raw)))
    return any(not np.array_equal(first, image) for image in others)


def base_rows(factors: Factors) -> NDArray[np.float32]:
    """Return raw rows: the middle, the middle with each value of a categorical factor, and some at random."""
    rows = [np.zeros((1, factors.n_raw), np.float32)]
    for k in factors.categorical:
        column = factors.factors[k].to_raw(factors.factors[k].listed)
        rows.append(np.zeros((len(column), factors.n_raw), np.float32))
        rows[-1][:, k] = column
    rows.append(np.random.default_rng(2).uniform(-1, 1, (4, factors.n_raw)).astype(np.float32))
    return factors.nearest(np.concatenate(rows))


def trial_rows(factors: Factors) -> NDArray[np.float32]:
    """Return raw rows: each factor at its listed values or both ends, the others in the middle, and some at random."""
    rows = [np.random.default_rng(1).uniform(-1, 1, (8, factors.n_raw)).astype(np.float32)]
    for k, factor in enumerate(factors.factors):
        column = factor.to_raw(factor.listed) if factor.values else np.array([-1, 1], np.float32)
        rows.append(np.zeros((len(column), factors.n_raw), np.float32))
        rows[-1][:, k] = column
    return np.concatenate(rows)


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
        factors, cameras = try_scene(given["name"], given["text"], blend, read_meshes(given.get("meshes", {})))
        answer = factors.as_dict() | {"cameras": list(cameras)}
    except UserError as error:
        answer = {"error": str(error)}
    except Exception as error:
        said, *_ = str(error).splitlines() or [""]
        answer = {"error": f"The scene {given['name']} cannot be rendered: {type(error).__name__}: {said}."}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
