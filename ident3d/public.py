"""Public names that load on first use, listed once: in the stub next to their module, which type checkers read too."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

LISTED = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def homes(module: str) -> dict[str, str]:
    """Return the names that the stub of an imported module lists, each with the module that holds it."""
    stub = Path(str(sys.modules[module].__file__)).with_suffix(".pyi")
    return {name: home for home, name in LISTED.findall(stub.read_text(encoding="utf-8"))}


def lazy(module: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a module that has a stub."""
    home = homes(module)

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        # A public module, such as ident3d.metrics, is listed as a name of the package that it lies in.
        if home[name] == module:
            return import_module(f"{module}.{name}")
        return getattr(import_module(home[name]), name)

    return load, lambda: sorted({*home, *vars(sys.modules[module])}), sorted(home)
