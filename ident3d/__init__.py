"""ident3d: image benchmarks with known latent factors, from rendering to identifiability scores.

Public names load on first use, so that ``import ident3d`` costs neither torch nor bpy.
"""

from importlib import import_module

__version__ = "0.1.0"

# public name -> the module that holds it
_HOME: dict[str, str] = {
    "UserError": "ident3d.errors",
    "doctor": "ident3d.health",
}

__all__ = ["UserError", "__version__", "doctor"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ident3d' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
