"""Which device renders: "auto" and the number of GPUs, found out in a process of its own."""

import json
import subprocess
import sys
from dataclasses import dataclass

from ident3d.errors import UserError


@dataclass(frozen=True)
class Device:
    """A kind of device that Cycles can use here, and how many of it there are."""

    kind: str
    count: int


def resolve_device(device: str) -> Device:
    """The device meant by cpu, the kind of a GPU, or auto: the first kind of GPU that Blender finds here, else the CPU.

    Blender is asked in another process, because one that hands out render jobs must not load bpy itself.
    """
    if device == "cpu":
        return Device("cpu", 1)
    code = "import json; from ident3d.blender_scenes.cycles import count_gpus; print(json.dumps(count_gpus()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(
            "Blender cannot list the GPUs of this machine; `ident3d doctor` says more, or take --device cpu."
        )
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    for kind, count in found.items():
        if count and device in (kind, "auto"):
            return Device(kind, count)
    if device == "auto":
        return Device("cpu", 1)
    raise UserError(f"Blender finds no {device} GPU here; take --device cpu or auto.")
