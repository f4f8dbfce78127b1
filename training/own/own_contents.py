"""A digest of all that ident3d can look at in a user's own object, and a list of what it cannot.

Two objects of equal digest with nothing unknown are equal code. The digest takes in

- of code in a file: the whole file, the name, the compiled code, and the globals that the code names, and theirs;
- of functions: defaults and what they close over; of partials: arguments; of instances: what pickling would keep;
- of tensors and arrays: a hash of their values; of installed packages: names alone.
"""

import dis
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

import numpy as np

PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
MOST_OBJECTS: Final = 20_000
# What Python itself puts into a class; the file says the same.
OF_PYTHON: Final = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__dataclass_fields__",
    "__dataclass_params__", "__abstractmethods__", "__static_attributes__", "__firstlineno__", "__orig_bases__",
    "__parameters__", "_abc_impl",
}  # fmt: skip
STDLIB: Final = sysconfig.get_paths()["stdlib"]
INSTALLED: Final = {"site-packages", "dist-packages"}


class Contents:
    """Walks through all that an object holds and digests it; `unknown` is what it could not look at."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.begun: dict[int, int] = {}
        self.found: dict[int, str] = {}
        # An object that is not kept could give its id to another.
        self.kept: list[object] = []

    def digest(self, thing: Any) -> str:
        if type(thing) in PLAIN:
            return hash_of(type(thing).__name__, repr(thing))
        if id(thing) not in self.found:
            if id(thing) in self.begun:
                return hash_of("the object begun as number", str(self.begun[id(thing)]))
            if len(self.begun) == MOST_OBJECTS:
                return self.cannot_see(f"more than {MOST_OBJECTS:,} objects", "")
            self.begun[id(thing)] = len(self.begun)
            self.kept.append(thing)
            self.found[id(thing)] = hash_of(*self.parts(thing))
        return self.found[id(thing)]

    def cannot_see(self, what: str, known: str) -> str:
        self.unknown.append(what)
        return hash_of("unknown", what, known)

    def all(self, things: Iterable[Any]) -> Iterator[str]:
        return (self.digest(thing) for thing in things)

    def parts(self, thing: Any) -> Iterator[str]:
        """Yield words and digests that say what an object is."""
        kind = type(thing)
        yield kind.__qualname__
        if is_tensor(thing) or isinstance(thing, np.ndarray):
            yield self.values(thing)
        elif kind in (tuple, list):
            yield from self.all(thing)
        elif kind in (set, frozenset):
            yield from sorted(self.all(thing))
        elif kind in (dict, MappingProxyType):
            yield from sorted(hash_of(self.digest(key), self.digest(value)) for key, value in thing.items())
        elif isinstance(thing, ModuleType):
            # What of it will be taken is not known here.
            yield from self.reached(thing, {name for name in vars(thing) if name[:2] != "__"}, [])
        elif isinstance(thing, FunctionType):
            yield from self.function(thing)
        elif isinstance(thing, type):
            yield from self.class_(thing)
        elif isinstance(thing, MethodType):
            yield from self.all((thing.__func__, thing.__self__))
        elif isinstance(thing, staticmethod | classmethod):
            yield self.digest(thing.__func__)
        elif isinstance(thing, property):
            yield from self.all((thing.fget, thing.fset, thing.fdel))
        elif isinstance(thing, cached_property):
            yield self.digest(thing.func)
        elif isinstance(thing, MemberDescriptorType | GetSetDescriptorType):
            yield thing.__name__
        elif isinstance(thing, CodeType):
            yield from (thing.co_name, thing.co_code.hex(), *thing.co_names, *thing.co_varnames, str(thing.co_flags))
            yield from self.all(thing.co_consts)
        elif isinstance(thing, BuiltinFunctionType) and (
            thing.__self__ is None or isinstance(thing.__self__, ModuleType)
        ):
            yield from (f"{thing.__module__}:{thing.__qualname__}", self.home_of(thing))
        else:
            yield from self.instance(thing)

    def values(self, array: Any) -> str:
        try:
            if is_tensor(array):
                import torch

                flat = array.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            elif array.dtype.hasobject:
                return hash_of(str(array.shape), *self.all(array.ravel().tolist()))
            else:
                flat = np.ascontiguousarray(array)
            return hash_of(str(array.dtype), str(tuple(array.shape)), hashlib.sha256(flat.tobytes()).hexdigest())
        except (RuntimeError, TypeError, NotImplementedError):
            return self.cannot_see(f"a {type(array).__name__}", str(tuple(array.shape)))

    def home(self, module: str) -> str:
        """Return the digest of the file of a module, its name alone if it belongs to an installed package."""
        if is_installed(module):
            return hash_of(module)
        found = sys.modules.get(module)
        file = getattr(found, "__file__", None)
        # A package without an __init__.py has no code of its own.
        if file is None and hasattr(found, "__path__"):
            return hash_of("")
        try:
            # Whether a script is imported or started makes no other code of it.
            return hash_of(hashlib.sha256(Path(str(file)).read_bytes()).hexdigest())
        except OSError:
            return self.cannot_see(f"code of {module}, which is in no file", module)

    def home_of(self, thing: Any) -> str:
        """Return the digest of the file of compiled code; that of PyTorch's own does not name its module."""
        module = getattr(thing, "__module__", None)
        return self.home(module) if isinstance(module, str) else ""

    def function(self, thing: FunctionType) -> Iterator[str]:
        module = str(thing.__globals__.get("__name__"))
        yield from (thing.__qualname__, self.home(module))
        installed = is_installed(module)
        if installed and "<" not in thing.__qualname__ and not thing.__closure__:
            yield module
            return
        yield self.digest(thing.__code__)
        yield from self.all((thing.__defaults__, thing.__kwdefaults__, vars(thing)))
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
            try:
                yield hash_of(name, *self.reached(cell.cell_contents, names_in(thing.__code__), []))
            except ValueError:  # nothing has been put into it yet
                yield name
        if not installed:
            yield from self.globals_of(thing)

    def globals_of(self, thing: FunctionType) -> Iterator[str]:
        """Yield what the names stand for that the code of a function takes from its module."""
        named = set[str]()
        for code in nested_code(thing.__code__):
            steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
            for i, step in enumerate(steps):
                if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                    named.add(str(step.argval))
                # Two steps before stands how many dots: `from .types import` is not Python's own types.
                elif step.opname == "IMPORT_NAME" and (steps[i - 2].argval or not is_installed(str(step.argval))):
                    yield self.cannot_see(f"an import of {step.argval} inside {thing.__qualname__}", "")
        for name in sorted(named & thing.__globals__.keys()):
            yield from (name, *self.reached(thing.__globals__[name], names_in(thing.__code__), []))

    def reached(self, value: Any, names: set[str], seen: list[object]) -> Iterator[str]:
        """Yield what a value is; of a module of the user's its file and what it holds under these names."""
        if not isinstance(value, ModuleType):
            yield self.digest(value)
            return
        yield self.home(value.__name__)
        if is_installed(value.__name__) or any(value is module for module in seen):
            return
        seen.append(value)
        # A module of a package may lie in another of them: package.losses.power.
        for name in sorted(names & vars(value).keys()):
            yield from (name, *self.reached(vars(value)[name], names, seen))

    def class_(self, thing: type) -> Iterator[str]:
        yield from (thing.__qualname__, self.home(thing.__module__))
        if is_installed(thing.__module__):
            yield thing.__module__
            return
        yield from self.all(thing.__bases__)
        for name, value in sorted(vars(thing).items()):
            # A named tuple's __new__ is made from its fields, and stands in no file.
            if name not in OF_PYTHON and not (name == "__new__" and "_field_defaults" in vars(thing)):
                yield from (name, self.digest(value))

    def instance(self, thing: Any) -> Iterator[str]:
        """Yield what pickling would keep of an instance; nothing is pickled, and nothing is called but that."""
        try:
            kept = thing.__reduce_ex__(2)
        except Exception:  # whatever its author raises
            yield self.cannot_see(f"an instance of {type(thing).__module__}.{type(thing).__qualname__}", "")
            return
        if isinstance(kept, str):
            # A global name, such as that of a cached function.
            yield from (kept, self.home_of(thing))
            yield from self.all((type(thing), getattr(thing, "__wrapped__", None)))
            return
        # A function that makes the object anew, its arguments, the state, list items, pairs of a dict.
        for part in kept:
            yield from self.all(part) if isinstance(part, Iterator) else (self.digest(part),)


def is_tensor(thing: object) -> bool:
    # Lists of runs read records without torch. Where torch was not loaded, nothing is a tensor.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def hash_of(*words: str) -> str:
    # With their lengths, so that no two lists of words are one text.
    return hashlib.sha256("".join(f"{len(word)}:{word}" for word in words).encode("utf-8", "surrogatepass")).hexdigest()


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions written inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from nested_code(inner)


def names_in(code: CodeType) -> set[str]:
    return {name for part in nested_code(code) for name in part.co_names}


def is_installed(module: str) -> bool:
    """Return whether a module is Python's, ident3d's, or an installed package's: its name stands for its code."""
    top = module.partition(".")[0]
    if top == "ident3d" or module in sys.builtin_module_names:
        return True
    try:
        spec = getattr(sys.modules.get(module), "__spec__", None) or find_spec(top)
    except (ImportError, ValueError):
        spec = None
    # A script that Python was started with has no specification, and none of its code is installed.
    if spec is None or not spec.origin or module == "__main__":
        return False
    file = Path(spec.origin)
    return spec.origin == "frozen" or file.is_relative_to(STDLIB) or bool(INSTALLED & {*file.parts})
