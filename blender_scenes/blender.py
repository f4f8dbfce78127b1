"""bpy, imported so that Blender's task library starts no threads beyond those a render asks for.

TBB counts the CPUs this process may run on once, while bpy loads, and keeps one worker thread per CPU. During a
single-threaded Cycles render the idle workers spin and can burn as much CPU time as the render itself. Shown a single
CPU while it loads, TBB keeps none; a render that asks for more threads still gets them. It counts those of the main
thread, whichever thread loads bpy: a Dask worker loads it in a thread of its own.

Nor does it find a folder of the user's: no preferences, scripts or add-ons are read, no cache is written there.
"""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

for _name in [name for name in os.environ if name.startswith("BLENDER_")]:
    del os.environ[_name]
os.environ["BLENDER_USER_RESOURCES"] = os.path.join(os.devnull, "none")  # noqa: PTH118, a place where nothing can be

# A parent that has loaded bpy hands its sys.path to spawned children, where Blender's script folders hide the module.
sys.path[:] = [folder for folder in sys.path if not Path(folder, "bpy_types.py").exists()]

if "bpy" not in sys.modules and hasattr(os, "sched_setaffinity"):
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

import mathutils  # noqa: E402, a module that exists once bpy is loaded

__all__ = ["bpy", "current_scene", "drop_scratch_folder", "mathutils"]


def drop_scratch_folder() -> None:
    """Remove the empty folder for temporary files that Blender makes whenever it loads settings.

    We keep nothing there, and a process that is killed would leave it behind.
    """
    with suppress(OSError):
        Path(bpy.app.tempdir).rmdir()


def current_scene() -> Any:
    """The scene; untyped, for its stubs know neither Cycles' settings nor that it is there."""
    return bpy.context.scene


drop_scratch_folder()
