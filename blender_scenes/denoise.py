"""Open Image Denoise for float images, from the library that bpy itself brings along.

Cycles can denoise too, but only with its own feature images and at about three times the cost.
"""

import ctypes
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ident3d.blender_scenes.blender import bpy

_CPU = 1
_FLOAT3 = 3
PRECISIONS = {"fast": 4, "balanced": 5, "high": 6}

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "oidnNewDevice": (c_void_p, [c_int]),
    "oidnSetDeviceInt": (None, [c_void_p, c_char_p, c_int]),
    "oidnSetDeviceBool": (None, [c_void_p, c_char_p, c_bool]),
    "oidnCommitDevice": (None, [c_void_p]),
    "oidnGetDeviceError": (c_int, [c_void_p, ctypes.POINTER(c_char_p)]),
    "oidnReleaseDevice": (None, [c_void_p]),
    "oidnNewFilter": (c_void_p, [c_void_p, c_char_p]),
    "oidnSetSharedFilterImage": (None, [c_void_p, c_char_p, c_void_p, c_int, *[c_size_t] * 5]),
    "oidnSetFilterBool": (None, [c_void_p, c_char_p, c_bool]),
    "oidnSetFilterInt": (None, [c_void_p, c_char_p, c_int]),
    "oidnCommitFilter": (None, [c_void_p]),
    "oidnExecuteFilter": (None, [c_void_p]),
    "oidnReleaseFilter": (None, [c_void_p]),
}


@cache
def _library() -> ctypes.CDLL:
    home = Path(bpy.utils.resource_path("LOCAL")).parent
    names = ("libOpenImageDenoise.so*", "libOpenImageDenoise*.dylib", "OpenImageDenoise.dll")
    # The core and the devices are libraries of their own, with an underscore in their names.
    found = [file for name in names for file in sorted(home.rglob(name)) if "_" not in file.name]
    if not found:
        raise RuntimeError(f"bpy at {home} brings no Open Image Denoise library.")
    library = ctypes.CDLL(str(found[0]))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Denoiser:
    """A denoising network for images of one size. It is set up once and called with each image."""

    def __init__(self, size: int, *, precision: str) -> None:
        self._oidn = _library()
        # The filter keeps the addresses of these two arrays, so they live as long as it does.
        self._color = np.zeros((size, size, 3), dtype=np.float32)
        self._output = np.zeros_like(self._color)
        self._device = self._oidn.oidnNewDevice(_CPU)
        # A farm runs one process a core. Denoisers that pinned their threads would all run on the first core.
        self._oidn.oidnSetDeviceInt(self._device, b"numThreads", 1)
        self._oidn.oidnSetDeviceBool(self._device, b"setAffinity", False)
        self._oidn.oidnCommitDevice(self._device)
        self._filter = self._oidn.oidnNewFilter(self._device, b"RT")
        for name, image in {"color": self._color, "output": self._output}.items():
            self._oidn.oidnSetSharedFilterImage(
                self._filter, name.encode(), image.ctypes.data, _FLOAT3, size, size, 0, 0, 0
            )
        self._oidn.oidnSetFilterBool(self._filter, b"hdr", True)
        self._oidn.oidnSetFilterInt(self._filter, b"quality", PRECISIONS[precision])
        self._oidn.oidnCommitFilter(self._filter)
        self._check()

    def __call__(self, color: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the denoised image of a scene-linear one."""
        self._color[...] = color
        self._oidn.oidnExecuteFilter(self._filter)
        self._check()
        return self._output.copy()

    def _check(self) -> None:
        message = c_char_p()
        if self._oidn.oidnGetDeviceError(self._device, ctypes.byref(message)):
            raise RuntimeError(f"Open Image Denoise failed: {(message.value or b'').decode(errors='replace')}")

    def close(self) -> None:
        """Free the network."""
        if self._device:
            self._oidn.oidnReleaseFilter(self._filter)
            self._oidn.oidnReleaseDevice(self._device)
            self._device = None
