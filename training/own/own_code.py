"""A user's own object: given itself, or by its import path, "package.module:name"."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any

import torch
from torch import nn

from ident3d.errors import UserError
from ident3d.memory import is_out_of_memory
from ident3d.training.own.own_object import OwnObject, is_own
from ident3d.training.own.own_record import doubt_on_resume, own_record, record_of_both


def by_path(kind: str, path: str) -> object:
    """Return the object `name` of the module, which may be a file in the current folder. `kind` is for the errors."""
    if isinstance(path, OwnObject):
        return path.thing
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise UserError(f"Your own {kind} is named package.module:name, not {path!r}.")
    here = str(Path.cwd())
    # At the end, because a user's file must not shadow an installed package.
    sys.path.append(here)
    try:
        # What a module draws when it is first imported must not shift a run's draws.
        with torch.random.fork_rng(devices=()):
            module = import_module(module_name)
    except Exception as error:
        raise UserError(f"The {kind} {path!r} cannot be imported ({type(error).__name__}: {error}).") from error
    finally:
        # The last such entry is ours: an earlier one for the same folder is somebody else's.
        del sys.path[-1 - sys.path[::-1].index(here)]
    if not hasattr(module, name):
        near = get_close_matches(name, vars(module), n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UserError(f"The module {module_name} has no {name!r} to take as {kind}.{hint}")
    found: object = getattr(module, name)
    return found


def own_records(names: Mapping[str, str]) -> dict[str, Any]:
    """Return what a run records of each own object among the encoder, the loss and so on."""
    return {kind: own_record(by_path(kind, name)) for kind, name in names.items() if is_own(name)}


def records_after_resume(record: object, names: Mapping[str, str], *, trains: bool) -> tuple[dict[str, Any], list[str]]:
    """Return what a resumed run records of its own objects from now on, and what is to be said of them.

    That is changed ones, and what cannot be checked. The record stays as it is unless the run `trains` on.
    """
    kept, said = dict(record) if isinstance(record, dict) else {}, []
    for kind, now in own_records(names).items():
        before, thing = kept.get(kind), by_path(kind, names[kind])
        if sentence := doubt_on_resume(kind, names[kind], before, now, thing):
            said.append(sentence)
        if trains:
            kept[kind] = record_of_both(before, now, thing)
    return kept, said


@contextmanager
def own_code(kind: str, path: str) -> Iterator[None]:
    """Turn what a call of a user's own object raises into a UserError with the line that raised it."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # Not a user's own code, or no fault of it.
        if ":" not in path or is_out_of_memory(error):
            raise
        file = getattr(sys.modules.get(path.partition(":")[0]), "__file__", None)
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
        where = f" ({Path(str(file)).name}, line {lines[-1]})" if lines else ""
        raise UserError(f"The {kind} {path!r} raised {type(error).__name__}: {error}{where}.") from error


def own_module(kind: str, path: str, **sizes: int) -> nn.Module:
    """Return a copy of a user's own nn.Module, or what a class or function of theirs makes when called with the sizes.

    It is a copy, so that no run of a process starts with the weights that the one before it has learnt.
    """
    found = by_path(kind, path)
    if isinstance(found, nn.Module):
        return deepcopy(found)
    if not callable(found):
        raise UserError(f"The {kind} {path!r} is neither an nn.Module nor a class or function that makes one.")
    try:
        with own_code(kind, path):
            made = found(*sizes.values())
    except UserError as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        given = " and ".join(f"the number of {what}, {size}" for what, size in sizes.items())
        raise UserError(f"The {kind} {path!r} is called with {given}: {error.__cause__}.") from error
    if not isinstance(made, nn.Module):
        raise UserError(f"The {kind} {path!r} made a {type(made).__name__}, not an nn.Module.")
    return made
