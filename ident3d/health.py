"""``doctor``: what this machine can do, what it cannot, and what to do about it."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.farm.batch.systems import SYSTEMS, is_here
from ident3d.farm.bpy_libraries import bpy_binary, install_line, missing_libraries
from ident3d.loaders.pairs.faiss_build import ADVICE, faiss_build
from ident3d.loaders.stores.data_root import data_root, usual_image_bytes
from ident3d.machine import UNTRIED, cores, free_bytes, installed_versions, untried

Status = Literal["ok", "limited", "missing"]
PACKAGES = ("ident3d", "numpy", "scipy", "scikit-learn", "h5py", "torch", "pillow", "matplotlib", "distributed")
# package of the extra "cluster" -> what it is for
CLUSTER = {
    "dask-jobqueue": "--cluster slurm, pbs, sge and lsf",
    "dask-kubernetes": "--cluster k8s",
    "s3fs": "s3:// addresses",
}
GIB = 2**30
BPY_PYTHON = ("3", "11")


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: what was found, and what works or does not because of it."""

    what: str
    found: str
    status: Status
    means: str


@dataclass(frozen=True)
class Health:
    """All findings, and whether this machine can render and train."""

    findings: tuple[Finding, ...]
    can_render: bool
    can_train: bool

    @property
    def exit_code(self) -> int:
        """0 if rendering and training are possible, 4 if only training is, 8 if only rendering is, 12 if neither is."""
        return (0 if self.can_render else 4) + (0 if self.can_train else 8)

    def as_dict(self) -> dict[str, object]:
        return {
            "can_render": self.can_render,
            "can_train": self.can_train,
            "findings": [asdict(finding) for finding in self.findings],
            "never_run": UNTRIED,
        }

    def table(self) -> str:
        rows = [(f.what, f.found, f.status, f.means) for f in self.findings]
        answers = f"Rendering: {'yes' if self.can_render else 'no'}.  Training: {'yes' if self.can_train else 'no'}."
        widths = [None, 34, None, 58]
        findings = tabulate(rows, headers=("what", "found", "status", "what it means"), maxcolwidths=widths)
        untried = tabulate(UNTRIED.items(), headers=("never run", "what it is"))
        return f"{findings}\n\n{untried}\n\n{answers}"


def doctor(root: Path | str | None = None) -> Health:
    """Return what works on this machine: Python, packages, bpy, FAISS, devices, cores, memory and disk.

    Args:
        root: The data root whose disk is checked; by default IDENT3D_DATA, else ./data.

    Returns:
        All findings, each with what to do if something is missing, and whether rendering and training are possible.

    Example:
        >>> import ident3d
        >>> ident3d.doctor().can_train
        True
    """
    rendering = check_bpy()
    training = check_torch()
    findings = (
        check_python(),
        *check_packages(),
        rendering,
        check_faiss(),
        training,
        *check_machine(),
        *check_cluster(),
        check_meshes(),
        check_disk(data_root(root)),
    )
    return Health(
        findings,
        can_render=rendering.status == "ok" and "distributed" in installed_versions(["distributed"]),
        can_train=training.status == "ok",
    )


def check_python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if platform.python_version_tuple()[:2] == BPY_PYTHON:
        return Finding("Python", found, "ok", "bpy's wheels are for this version")
    return Finding("Python", found, "limited", "loading, training and scoring work; rendering needs Python 3.11")


def check_packages() -> Iterator[Finding]:
    versions = installed_versions(PACKAGES)
    for package in PACKAGES:
        found = versions.get(package)
        if found:
            yield Finding(package, found, "ok", "installed")
        elif package == "distributed":
            yield Finding(package, "not installed", "limited", "rendering needs it: pip install 'ident3d[render]'")
        else:
            yield Finding(package, "not installed", "missing", f"pip install {package}")


def check_bpy() -> Finding:
    """Import bpy in a separate process."""
    # A missing library or a crash of bpy must not end doctor too.
    binary = bpy_binary()
    if binary is None:
        right_python = platform.python_version_tuple()[:2] == BPY_PYTHON
        advice = "pip install 'ident3d[render]'" if right_python else "use Python 3.11 to render"
        return Finding("bpy (rendering)", "not installed", "missing", f"rendering is unavailable: {advice}")
    code = "import bpy; print(bpy.app.version_string)"
    trial = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if trial.returncode == 0:
        return Finding("bpy (rendering)", trial.stdout.strip().splitlines()[-1], "ok", "rendering works")
    libraries = missing_libraries(binary)
    if libraries:
        means = f"rendering is unavailable: {install_line(libraries)}"
        return Finding("bpy (rendering)", f"lacks {', '.join(libraries)}", "missing", means)
    last = (trial.stderr.strip() or f"exit code {trial.returncode}").splitlines()[-1]
    return Finding("bpy (rendering)", "does not import", "missing", f"rendering is unavailable: {last}")


def check_faiss() -> Finding:
    build = faiss_build()
    advice = ADVICE.get(build)
    if advice:
        return Finding("FAISS (pairs)", build, "missing", advice)
    try:
        import faiss
    except ImportError as error:
        return Finding("FAISS (pairs)", f"{build} build", "missing", f"it does not import: {error}")
    found = f"{build} build, {faiss.__version__}"
    return Finding("FAISS (pairs)", found, "ok", f"--search flat{' (on a GPU)' * (build == 'gpu')} and ivf work")


def check_torch() -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("torch devices", "does not import", "missing", f"training is unavailable: {error}")
    devices = ["cpu"] + [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    means = "training works" + ("" if len(devices) > 1 else "; without a GPU the papers' sizes take days")
    return Finding("torch devices", ", ".join(devices), "ok", means)


def cpu_flags() -> set[str]:
    """Return the CPU feature names that Linux lists; none elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    line = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), ":")
    return set(line.split(":", 1)[1].split())


def check_machine() -> Iterator[Finding]:
    # Without these instructions bf16 is emulated, which is slower than fp32.
    flags = sorted(cpu_flags() & {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "bf16"})
    bf16 = any("bf16" in flag for flag in flags)
    means = "bf16 training is fast here" if bf16 else "no bf16 instructions: training stays in fp32 on the CPU"
    yield Finding("CPU features", ", ".join(flags) or "unknown", "ok" if bf16 else "limited", means)
    count = cores()
    yield Finding("cores", str(count), "ok", f"{count} render worker{'s' if count > 1 else ''} by default")
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    except (ValueError, OSError, AttributeError):
        yield Finding("memory", "unknown", "limited", "a render worker needs about 0.5 GiB")
        return
    enough = memory >= 0.5 * count + 2
    means = "enough for a render worker a core" if enough else "use fewer workers: each needs about 0.5 GiB"
    yield Finding("memory", f"{memory:.1f} GiB", "ok" if enough else "limited", means)


def check_cluster() -> Iterator[Finding]:
    """Check what rendering on other machines needs; rendering on this machine needs none of it."""
    versions = installed_versions(tuple(CLUSTER))
    for package, use in CLUSTER.items():
        found = versions.get(package)
        means = f"for {use}" + ("" if found else ": pip install 'ident3d[cluster]'")
        yield Finding(package, found or "not installed", "ok" if found else "limited", means)
    here = [system for system in SYSTEMS if is_here(system)]
    # PBS and Grid Engine share the command qsub.
    new = [system for system in here if system in UNTRIED]
    means = (
        "--cluster can start jobs here" + (untried(*new) if new else "")
        if here
        else "no sbatch, qsub, bsub or kubectl configuration for --cluster"
    )
    yield Finding("batch systems", ", ".join(here) or "none here", "ok" if here else "limited", means)


def check_meshes() -> Finding:
    from ident3d.shapes.cache import cached_meshes, mesh_folder
    from ident3d.shapes.library import missing_meshes
    from ident3d.shapes.sources import SOURCES

    try:
        missing = missing_meshes()
    except UserError as error:
        return Finding("meshes (causal)", "unreadable", "limited", str(error))
    found = f"{len(cached_meshes())} of {len(SOURCES)} in {mesh_folder()}"
    if missing:
        return Finding("meshes (causal)", found, "limited", f"`ident3d meshes` fetches {', '.join(missing)}")
    return Finding("meshes (causal)", found, "ok", "all classes of causal3dident can be rendered")


def check_disk(root: Path) -> Finding:
    free = free_bytes(root) / GIB
    images = int(free * GIB / usual_image_bytes(224))
    means = f"room for about {images:,} images of 224x224 below {root}"
    return Finding("free disk", f"{free:.1f} GiB", "ok" if free > 10 else "limited", means)
