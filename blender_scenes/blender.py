"""bpy, imported so that Blender's task library starts no threads beyond those a render asks for.

TBB counts the CPUs this process may run on once, while bpy loads, and keeps one worker thread per CPU. During a
single-threaded Cycles render the idle workers spin and can burn as much CPU time as the render itself. If only one CPU
is allowed while bpy loads, TBB keeps none, and a render that asks for more threads still gets them.

Blender also finds no folder of the user's: it reads no preferences, scripts or add-ons and writes no cache there.
"""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

# A user's variables could name folders of scripts and preferences that change pixels.
for _name in [name for name in os.environ if name.startswith("BLENDER_")]:
    del os.environ[_name]
# Below a device file nothing can exist, so Blender finds no folder of the user's.
os.environ["BLENDER_USER_RESOURCES"] = os.path.join(os.devnull, "none")  # noqa: PTH118

# A parent that has loaded bpy hands its sys.path to spawned children, where Blender's script folders hide the module.
sys.path[:] = [folder for folder in sys.path if not Path(folder, "bpy_types.py").exists()]

if "bpy" not in sys.modules and hasattr(os, "sched_setaffinity"):
    # TBB counts the CPUs of the main thread, whichever thread loads bpy. A Dask worker loads it in another thread.
    _threads = {os.getpid(), threading.get_native_id()}
    _allowed = {thread: os.sched_getaffinity(thread) for thread in _threads}
    for _thread, _cpus in _allowed.items():
        os.sched_setaffinity(_thread, {min(_cpus)})
    try:
        import bpy
    finally:
        for _thread, _cpus in _allowed.items():
            os.sched_setaffinity(_thread, _cpus)
else:
    import bpy

# These modules exist only once bpy is loaded.
import bmesh  # noqa: E402
import mathutils  # noqa: E402

__all__ = ["bmesh", "bpy", "current_scene", "drop_scratch_folder", "mathutils"]


def drop_scratch_folder() -> None:
    """Remove the empty folder for temporary files that Blender makes whenever it loads settings.

    We keep nothing there, and a process that is killed would leave it behind.
    """
    with suppress(OSError):
        Path(bpy.app.tempdir).rmdir()


def current_scene() -> Any:
    """Return the scene."""
    # It is untyped: the stubs know neither Cycles' settings nor that there always is a scene.
    return bpy.context.scene


drop_scratch_folder()
