"""Who owns a lease: a process, told from all others, and whether it still runs."""

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def this_process() -> dict[str, Any]:
    """What tells this process from all others: host, number, and the time at which it began."""
    return {"host": platform.node(), "system": system(), "pid": os.getpid(), "started": started(os.getpid())}


def system() -> list[str]:
    """What tells whether a process number means the same here: this boot of the kernel, and its space of numbers."""
    found = []
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(str(Path("/proc/self/ns/pid").readlink()))  # containers may share a host's name and kernel
    return found


def is_hidden(pid: int) -> bool:
    """Whether there is such a process, of another user, of which this host tells us nothing else (hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not Path(f"/proc/{pid}").exists()
    except (OSError, OverflowError):
        return False
    return False


def started(pid: int) -> str | None:
    """When the process began, in the kernel's ticks; None if there is no such process, or it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else fields[18]


def is_dead(owner: Mapping[str, Any]) -> bool:
    """Whether the owner's process ran here and runs no more; where that cannot be known, it lives."""
    here = this_process()
    same = all(owner.get(name) == here[name] for name in ("host", "system")) and here["started"] is not None
    pid = owner.get("pid")
    return same and type(pid) is int and pid > 0 and started(pid) != owner.get("started") and not is_hidden(pid)


def owner_in(content: bytes) -> dict[str, Any]:
    """Who made the claim; nothing where it cannot be read, as while it is being written."""
    try:
        owner = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def name_of(owner: Mapping[str, Any]) -> str:
    """The owner as messages name it; what a file claims of its owner may be anything."""
    pid, host = owner.get("pid"), owner.get("host")
    known = isinstance(pid, int) and isinstance(host, str) and host.isprintable() and len(host) < 256
    return f"process {pid} on {host}" if known else "another process"
