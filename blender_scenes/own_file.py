"""A scene of a user's own, from the text of its Python file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from traceback import extract_tb
from types import ModuleType
from typing import Final, TypeGuard

from ident3d.blender_scenes.scene import Scene
from ident3d.errors import UserError
from ident3d.latents.factor import Factor

# What Python calls the file in a traceback, and the module.
SCENE_FILE: Final = "<scene>"
SCENE_MODULE: Final = "ident3d_own_scene"


@contextmanager
def blamed(name: str, module: str = SCENE_MODULE) -> Iterator[None]:
    """Turn what the code of a scene's file raises into a UserError that names the line, if it is one of the file's.

    What classes of another module raise is left as it is, where no line of the file took part.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == SCENE_FILE]
        if isinstance(error, UserError):
            if not lines:
                raise
            raise UserError(f"The scene {name}, line {lines[-1]}: {error}") from error
        if isinstance(error, SyntaxError) and error.filename == SCENE_FILE:
            lines.append(error.lineno)
        if not lines and module != SCENE_MODULE:
            raise
        said, *_ = str(error.args[0] if isinstance(error, SyntaxError) else error).splitlines() or [""]
        where = f" in line {lines[-1]}" if lines else ""
        said = f": {said}" if said else ""
        raise UserError(f"The scene {name} raised {type(error).__name__}{where}{said}.") from error


def own_scene(name: str, text: str) -> Scene:
    """Return the scene that the class `name` makes, in a file of this text. Its code runs here."""
    module = ModuleType(SCENE_MODULE)
    # Dataclasses look their module up.
    sys.modules[SCENE_MODULE] = module
    with blamed(name):
        # Not inherited: the file says itself which features of the future it wants.
        exec(compile(text, SCENE_FILE, "exec", dont_inherit=True), vars(module))
    found = vars(module).get(name)
    scenes = [key for key, value in vars(module).items() if is_scene(value) and value.__module__ == SCENE_MODULE]
    if not is_scene(found):
        what = f"its scenes are {', '.join(scenes)}" if scenes else "it has no class below ident3d.Scene"
        near = get_close_matches(name, scenes, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UserError(f"The file has no scene {name!r}; {what}.{hint}")
    for method, takes in (("build", "self"), ("pose", "self, values")):
        if getattr(found, method) is getattr(Scene, method):
            raise UserError(f"The scene {name} needs a method {method}({takes}).")
    declared: object = found.factors
    if isinstance(declared, Factor):
        raise UserError(f"The `factors` of the scene {name} lack a comma: a tuple of one is (Factor(...),).")
    with blamed(name):
        scene = found()
        factors = list(scene.factors)
    if not factors or not all(isinstance(factor, Factor) for factor in factors):
        raise UserError(f"The scene {name} needs `factors`, one ident3d.Factor or more.")
    return scene


def is_scene(thing: object) -> TypeGuard[type[Scene]]:
    return isinstance(thing, type) and issubclass(thing, Scene) and thing is not Scene
