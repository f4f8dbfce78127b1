"""Open a .blend so that nothing in it runs: no text, no driver in Python, no handler, no style or shader script."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ident3d.blender_scenes.blender import bpy, current_scene
from ident3d.blender_scenes.data_path import COLLECTIONS
from ident3d.errors import UserError, check_known

# A .blend as it is, or compressed by Zstandard or gzip.
_BEGINNINGS: Final = (b"BLENDER", b"\x28\xb5\x2f\xfd", b"\x1f\x8b")


def open_blend(content: bytes, scene_name: str = "") -> list[str]:
    """Put the scene of a .blend in place of the current, empty one, without running anything, and check it.

    Return what drivers in Python set, which do not run. The .blend must have all that it shows in itself: a worker
    elsewhere has no other file of the user's.
    """
    if not content.startswith(_BEGINNINGS):
        raise UserError("The file is not a .blend.")
    bpy.context.preferences.filepaths.use_scripts_auto_execute = False  # type: ignore[union-attr]
    empty: Any = current_scene()
    empty.name = "ident3d, before the .blend"
    # Blender opens no file from memory.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.blend"
        path.write_bytes(content)
        scene = append_all(path, scene_name)
    # Until here nothing was evaluated. Blender would evaluate the drivers of a file that it opens, with some care.
    taken_out = disarm()
    window: Any = bpy.context.window
    window.scene = scene
    bpy.data.scenes.remove(empty)
    refuse_files_outside(path)
    make_plain()
    return taken_out


def append_all(path: Path, scene_name: str) -> Any:
    """Copy the scene and all that a factor may name out of the .blend at this path; return the scene."""
    load: Any = bpy.data.libraries.load
    try:
        # As a library a file is only read: it brings no settings, and no text or driver of it is looked at.
        with load(str(path), link=False) as (there, here):
            scenes = list(there.scenes)
            if len(scenes) != 1 and not scene_name:
                raise UserError(f'The .blend has {len(scenes)} scenes; say which, as in scene = "Scene".')
            if scene_name:
                check_known("scene", scene_name, scenes)
            here.scenes = [scene_name or scenes[0]]
            for name in COLLECTIONS:
                if hasattr(there, name):
                    setattr(here, name, list(getattr(there, name)))
    except OSError as error:
        said, *_ = str(error).replace(str(path), "the file").splitlines()
        raise UserError(f"Blender cannot open the .blend: {said}") from None
    (scene,) = here.scenes
    return scene


def disarm() -> list[str]:
    """Remove all from the open .blend that could run: besides not being allowed to, it is not there any more.

    Return what the removed drivers set, by the names of their data-blocks.
    """
    taken_out = []
    for text in list(bpy.data.texts):
        bpy.data.texts.remove(text)
    for block in list(blocks()):
        moving: Any = getattr(block, "animation_data", None)
        for curve in list(moving.drivers) if moving else ():
            # Blender itself calculates plain arithmetic, without Python.
            if curve.driver.type == "SCRIPTED" and not curve.driver.is_simple_expression:
                if not curve.mute:
                    # The tree of a material has no name of its own.
                    taken_out.append(f"{curve.data_path} of {'a node tree' if block.is_embedded_data else block.name}")
                moving.drivers.remove(curve)
        for node in [node for node in getattr(block, "nodes", ()) if node.bl_idname == "ShaderNodeScript"]:
            block.nodes.remove(node)
    camera: Any
    for camera in bpy.data.cameras:
        # A camera may be a program, which comes compiled, and for which no shader needs to be one.
        camera.custom_bytecode = camera.custom_bytecode_hash = camera.custom_filepath = ""
        camera.type = "PERSP" if camera.type == "CUSTOM" else camera.type
    scene: Any
    for scene in bpy.data.scenes:
        scene.render.use_freestyle = False
        # Shaders that are programs run with Open Shading Language alone. An animation could set it again.
        scene.cycles.shading_system = False
    return taken_out


def blocks() -> Iterator[Any]:
    """Yield all data-blocks, with the node trees that are a part of another."""
    for block in bpy.data.user_map():
        yield block
        if (tree := getattr(block, "node_tree", None)) is not None:
            yield tree


def refuse_files_outside(itself: Path) -> None:
    """Raise UserError if the open .blend, which lay at the path `itself`, needs a file that is not packed into it."""
    outside = [library.filepath for library in bpy.data.libraries if library.users_id]
    # What was copied remembers where it came from.
    outside += [each for each in bpy.utils.blend_paths(absolute=False, packed=False, local=True) if each != str(itself)]
    for block in blocks():
        for node in getattr(block, "nodes", ()):
            if node.bl_idname.startswith("GeometryNodeImport"):
                outside.append(f"that of the node {node.name}")
    if outside:
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        raise UserError(
            f"The .blend needs files that are not in it: {outside[0]}{more}; pack them "
            "(File > External Data > Pack Resources, and make what is linked local), or remove them."
        )


def make_plain() -> None:
    """Set what one square still image needs: one layer, one eye, no blur of motion, no switch of cameras."""
    scene: Any = current_scene()
    render = scene.render
    render.use_multiview = render.use_motion_blur = False
    render.pixel_aspect_x = render.pixel_aspect_y = 1.0
    scene.timeline_markers.clear()
    for number, layer in enumerate(scene.view_layers):
        layer.use = number == 0
    window: Any = bpy.context.window
    window.view_layer = scene.view_layers[0]
