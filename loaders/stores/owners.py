"""Who owns a lease: how a process is identified, and whether it is still running."""

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """Return what identifies this process: host, system, number, and the time at which it started."""
    return {"host": platform.node(), "system": system(), "pid": os.getpid(), "started": start_time(os.getpid())}


def system() -> list[str]:
    """Return what must be equal for a process number to mean the same process: the kernel's boot and PID namespace."""
    found = []
    # Containers may share a host's name and kernel, and still number their processes on their own.
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(str(Path("/proc/self/ns/pid").readlink()))
    return found


def is_hidden(pid: int) -> bool:
    """Return whether the process exists but belongs to another user and is not shown to us (mount option hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not Path(f"/proc/{pid}").exists()
    except (OSError, OverflowError):
        return False
    return False


def start_time(pid: int) -> str | None:
    """Return when the process started, in the kernel's ticks; None if it does not exist or has ended."""
    try:
        # The name of a process may hold blanks and brackets, so that the fields are counted from the last bracket.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie has ended; only its parent has not asked for its result.
    return None if state in "ZX" else fields[18]


def is_dead(owner: Mapping[str, Any]) -> bool:
    """Return whether the owner's process ran here and has ended. If that cannot be known, it counts as alive."""
    # A number is used again for other processes, so that the time of the start must be the same as well.
    here = this_process()
    same = all(owner.get(name) == here[name] for name in ("host", "system")) and here["started"] is not None
    pid = owner.get("pid")
    return same and type(pid) is int and pid > 0 and start_time(pid) != owner.get("started") and not is_hidden(pid)


def owner_in(content: bytes) -> dict[str, Any]:
    """Return who made the claim; nothing if it cannot be read, for example while it is being written."""
    try:
        owner = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def name_of(owner: Mapping[str, Any]) -> str:
    """Return the owner's name for messages. A file may hold anything, so that its fields are checked first."""
    pid, host = owner.get("pid"), owner.get("host")
    known = isinstance(pid, int) and isinstance(host, str) and host.isprintable() and len(host) < 256
    return f"process {pid} on {host}" if known else "another process"
