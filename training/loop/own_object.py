"""A user's own function, class or module in place of a name: a str that carries the object. No torch."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

from ident3d.loaders.format.files import sha256

Name = TypeVar("Name", str, str | None)


class OwnObject(str):
    """The name of a user's own object, "package.module:name", and the object itself.

    It is written down as its name. The name of an instance ends with (): such an object cannot be imported.
    """

    thing: Callable[..., Any]

    def __new__(cls, thing: Callable[..., Any]) -> "OwnObject":
        is_instance = not hasattr(thing, "__qualname__")
        named: Any = type(thing) if is_instance else thing
        made = super().__new__(cls, f"{named.__module__}:{named.__qualname__}{'()' * is_instance}")
        made.thing = thing
        return made

    def __getnewargs__(self) -> tuple[Any]:
        return (self.thing,)

    def __str__(self) -> str:
        return self

    # A record of settings copies their values, and a whole network is nothing to copy for its name.
    def __deepcopy__(self, memo: object) -> "OwnObject":
        return self


def own_name(given: str | Callable[..., Any]) -> str:
    """Return a name as it is, and any other object as one that carries it."""
    return given if isinstance(given, str) else OwnObject(given)


class OwnOr(Generic[Name]):
    """A field of settings that takes a name or a user's own object, and always reads as a name."""

    def __init__(self, default: Name) -> None:
        self.default: Name = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Name: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Name: ...
    def __get__(self, instance: object | None, owner: type) -> Name:
        # A dataclass asks its class for the default of a field.
        found: Name = self.default if instance is None else vars(instance)[self.name]
        return found

    def __set__(self, instance: object, value: Name | Callable[..., Any]) -> None:
        if not (value is None or isinstance(value, str) or callable(value)):
            raise TypeError(f"{self.name} is a name, or a function, class or module of your own, not {value!r}.")
        vars(instance)[self.name] = value if value is None else own_name(value)


def source_digest(thing: Any) -> str | None:
    """Return the digest of a function's or class's source; None for what has none, and for an instance."""
    # The source of its class does not say what an instance holds.
    if not hasattr(thing, "__qualname__"):
        return None
    try:
        return sha256(inspect.getsource(thing).encode())[:16]
    except (OSError, TypeError):
        return None


def unlike_the_record(record: object, own: Mapping[str, tuple[str, object]]) -> list[str]:
    """Return a sentence for each own object that is not the recorded one, or of which that cannot be told.

    `record` is what a run kept as "own_code", `own` says of the encoder and so on its name and the object.
    """
    found, kept = [], record if isinstance(record, dict) else {}
    for kind, (name, thing) in own.items():
        before, now = kept.get(kind), source_digest(thing)
        if before and now and before != now:
            found.append(f"The {kind} {name} has other source code than when this run began; it goes on with today's.")
        # A function inside another may hold anything that its lines do not say.
        elif not before or not now or "<" in name:
            found.append(
                f"It cannot be checked whether the {kind} {name} is the very one that this run began with: "
                "what it holds is not recorded, only its name."
            )
    return found
