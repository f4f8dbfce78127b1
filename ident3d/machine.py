"""What this machine is: its cores, its processor, its free disk, and the versions of what is installed."""

import os
import platform
import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """The processor's name, or "unknown"."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def installed_versions(packages: Sequence[str]) -> dict[str, str]:
    """The versions of Python and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def free_bytes(path: Path) -> int:
    """The free bytes of the disk that the path is, or would be, on."""
    path = path.absolute()
    return shutil.disk_usage(next(folder for folder in [path, *path.parents] if folder.exists())).free


def cache_folder() -> Path:
    """The user's own cache folder for everything that can be made again."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ident3d"))
