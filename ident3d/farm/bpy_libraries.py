"""The system's shared libraries that bpy needs: which are missing, and what installs them."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from ident3d.errors import UserError

# Shared library -> Debian and Ubuntu package, for what bpy's wheel expects from the system.
DEBIAN_PACKAGE: dict[str, str] = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libICE.so.6": "libice6",
    "libSM.so.6": "libsm6",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXfixes.so.3": "libxfixes3",
    "libXi.so.6": "libxi6",
    "libXrender.so.1": "libxrender1",
    "libXxf86vm.so.1": "libxxf86vm1",
    "libgomp.so.1": "libgomp1",
    "libvulkan.so.1": "libvulkan1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon.so.0": "libxkbcommon0",
}


def bpy_binary() -> Path | None:
    """Return bpy's compiled module; None if bpy is not installed."""
    # It is found without an import: that takes seconds, and fails if a library is missing.
    spec = find_spec("bpy")
    return Path(spec.origin) if spec and spec.origin else None


def require_bpy() -> None:
    """Raise UserError unless bpy is installed."""
    if bpy_binary() is None:
        raise UserError("Rendering needs Blender's bpy: with Python 3.11, pip install 'ident3d[render]'.")


def missing_libraries(binary: Path) -> list[str]:
    """Return the names, sorted, of the shared libraries that the dynamic linker does not find for `binary`."""
    try:
        listing = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        # Without ldd nothing is known here. The import will name the first library that is missing.
        return []
    return sorted(set(re.findall(r"^\s*(\S+) => not found", listing, re.MULTILINE)))


def install_line(libraries: list[str]) -> str:
    """Return the line that installs `libraries` on Debian and Ubuntu. It names those without a known package."""
    packages = sorted({DEBIAN_PACKAGE[name] for name in libraries if name in DEBIAN_PACKAGE})
    unknown = [name for name in libraries if name not in DEBIAN_PACKAGE]
    parts = [f"sudo apt-get install -y {' '.join(packages)}"] if packages else []
    if unknown:
        parts.append(f"and find the packages that hold {', '.join(unknown)}")
    return " ".join(parts)


def main() -> None:
    """Print the Debian packages that are missing, one a line (for tools/setup)."""
    binary = bpy_binary()
    missing = missing_libraries(binary) if binary else []
    for package in sorted({DEBIAN_PACKAGE[name] for name in missing if name in DEBIAN_PACKAGE}):
        print(package)


if __name__ == "__main__":
    main()
