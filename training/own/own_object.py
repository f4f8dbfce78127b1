"""A user's own function, class or module in place of a name: a str that carries the object. No torch."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from ident3d.errors import UserError

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
            raise UserError(f"{self.name} is a name, or a function, class or module of your own, not {value!r}.")
        vars(instance)[self.name] = value if value is None else own_name(value)


def is_own(name: str) -> bool:
    """Return whether a name stands for a user's own object; papers:5 and decoder:RUN are mixings of ours."""
    return ":" in name and not name.startswith(("papers:", "decoder:"))
