"""The .blend and the factors file of the docs' page, and others made of them."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/how-to/own-scene.md"
# The first Python block of the page is a scene in Python.
_, MAKE_ROOM = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
(ROOM,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
# One factor, of the table above it.
ONE = """
[factors.x]
range = [-2, 2]
path = 'objects["Ball"].location[0]'
"""
ACTION = "open({!r} + '-{}', 'w').close()"


def make_room(path: Path, more: str = "") -> bytes:
    """Write the page's .blend, after more lines of Python were run in it, and return its content."""
    import ident3d.blender_scenes.blender  # noqa: F401
    from ident3d.blender_scenes.silence import silent

    code = MAKE_ROOM.replace('"desk.blend"', repr(str(path)))
    save = code.index("bpy.ops.wm.save_as_mainfile")
    names: dict[str, Any] = {}
    with silent():
        exec(code[:save] + more + "\n" + code[save:], names)
        names["bpy"].ops.wm.read_factory_settings(use_empty=True)
    return path.read_bytes()


def evil(mark: Path) -> str:
    """Return lines that put code into a .blend: each kind writes a file of its own next to `mark` if it is run."""

    def action(kind: str) -> str:
        return ACTION.format(str(mark), kind)

    handler = f"""import bpy
{action("text")}
@bpy.app.handlers.persistent
def run(*_): {action("handler")}
bpy.app.handlers.load_post.append(run)
bpy.app.handlers.render_pre.append(run)
"""
    return f"""
driver = bpy.data.objects["Floor"].driver_add("location", 2).driver
driver.type, driver.expression = "SCRIPTED", {f"({action('driver')}, 0)[1]"!r}
text = bpy.data.texts.new("evil.py")
text.write({handler!r})
text.use_module = True
style = bpy.data.texts.new("style.py")
style.write({action("style")!r})
layer = bpy.context.scene.view_layers[0]
bpy.context.scene.render.use_freestyle = layer.use_freestyle = True
layer.freestyle_settings.mode = "SCRIPT"
layer.freestyle_settings.modules.new().script = style
bpy.context.scene.cycles.shading_system = True
"""
