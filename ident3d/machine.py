"""What this machine is: its cores, its processor, its free disk, and the versions of what is installed."""

import os
import platform
import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def cores() -> int:
    """Return the number of cores that this process may use."""
    # A batch system may allow a job fewer cores than the machine has.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """Return the processor's name with its family and model, or "unknown".

    A virtual machine often names no more than the make, and processors of one make differ twofold in speed.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    # All cores say the same, so that the last one's words are as good as the first's.
    facts = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    numbers = [f"{name.split()[-1]} {facts[name]}" for name in ("cpu family", "model") if name in facts]
    return facts.get("model name", "unknown") + (f" ({', '.join(numbers)})" if numbers else "")


def installed_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python and of those of the packages that are installed."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk that holds the path, or would hold it."""
    # The folder may not exist yet: its nearest parent that does lies on the same disk.
    path = path.absolute()
    return shutil.disk_usage(next(folder for folder in [path, *path.parents] if folder.exists())).free


def cache_folder() -> Path:
    """Return the user's cache folder, for everything that can be made again."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("ident3d"))


# Code that is written, and tested as far as this can be done without a GPU or a cluster, but has never run for real:
# its name -> what it is. `doctor` lists all of it, and the help of the options concerned names it.
UNTRIED: dict[str, str] = {
    "cuda": "training and encoding on an NVIDIA GPU (--device cuda), with pinned memory",
    "mps": "training and encoding on an Apple GPU (--device mps)",
    "fp16": "training in half precision with its gradient scale (--dtype fp16)",
    "nccl": "training on several GPUs under torchrun, and --sync-bn",
    "compile on GPUs": "--compile on any device but a CPU",
    "FAISS on GPUs": "pair search with faiss-gpu",
    "GPU rendering": "--render-device cuda, optix, hip or metal",
    "several hosts": "rendering on more than one host (Slurm and Grid Engine ran for real, on one node)",
    "pbs": "--cluster pbs",
    "lsf": "--cluster lsf",
    "k8s": "--cluster k8s, through dask-kubernetes",
    "macOS, Windows": "anything at all on them",
    "Amazon's and Google's stores": "s3:// and gs:// at the companies themselves (moto's server stood in for S3)",
    "unconditional stores": "stores other than s3:// and gs://, which have no conditional writes",
}


def untried(*names: str) -> str:
    """Return the end of a help sentence that names values which have never been run; each must be in UNTRIED."""
    return f" (never run: {', '.join(name for name in names if UNTRIED[name])})"
