"""What the words after an option may be: click types whose errors name the option and show an example."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ident3d.errors import UserError

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


class StoreOrPath(click.Path):
    """A path, or the address of a store as it was typed: a Path would lose one of its slashes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


class Words(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A word that `read` reads. If it raises ValueError, the error says in one sentence what the option takes.

    `alone` are words to be typed as they are: the help shows them before the name.
    """

    def __init__(self, name: str, read: Callable[[str], Any], takes: str, *alone: str) -> None:
        self.name, self.read, self.takes, self.alone = name, read, takes, alone

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return what stands after the option in the help."""
        return f"[{'|'.join([*self.alone, self.name.upper()])}]" if self.alone else self.name.upper()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # Click converts defaults as well, which are read already.
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError:
            option, form = (param.opts[0], param.metavar) if param else ("This", None)
            raise UserError(f"{option} takes {self.takes.format(form=form)}, not {value!r}.") from None


class Listed(Words):
    """Words that make a list: separated by commas, after an option that may be repeated."""


def joined(given: tuple[Any, ...]) -> Any:
    """Return the list that the values of a repeated option make together; a word that stands alone as it is."""
    if len(given) == 1:
        return given[0]
    return tuple(each for part in given for each in ([part] if isinstance(part, str) else part))


def as_list(*, help: str, default: Any = None, **_: Any) -> dict[str, Any]:
    """Return the settings of an option that takes a list, so that all of them are given and explained in one way."""
    how = "separated by commas; repeatable."
    return {
        "help": help if how in help else f"{help.removesuffix('.')}, {how}",
        "default": (default,) if isinstance(default, str) else None,
        "multiple": True,
        "callback": lambda _context, _param, given: joined(given) if given else default,
    }


def names(*alone: str) -> Listed:
    """Return the type of names separated by commas, read as a tuple; a word of `alone` stays as it is."""

    def read(text: str) -> str | tuple[str, ...]:
        return text if text in alone else tuple(map(str.strip, text.split(",")))

    return Listed("names", read, "names", *alone)


def numbers(kind: type[int] | type[float] = float) -> Listed:
    """Return the type of numbers separated by commas, read as a tuple; of whole ones if `kind` is int."""
    what = "whole numbers" if kind is int else "numbers"
    takes = f"{what} separated by commas, such as 0,1,2"
    return Listed("numbers", lambda text: tuple(map(kind, text.split(","))), takes)


def number_or(word: str) -> Words:
    """Return the type of a number, or of one word that stands for None."""
    return Words("number", lambda text: None if text == word else float(text), f"a number, or {word}", word)


def numbers_or(word: str) -> Words:
    """Return the type of one number or several, separated by commas, or of one word, which is read as no number."""

    def read(text: str) -> tuple[float, ...]:
        return () if text == word else tuple(map(float, text.split(",")))

    return Words("numbers", read, f"a number, several separated by commas, or {word}", word)


def assignment(example: str, value: Callable[[str], Any], key: Callable[[str], Any] = str) -> Words:
    """Return the type of NAME=VALUE, read as (name, value) by two functions; errors show the `example`."""

    def read(text: str) -> tuple[Any, Any]:
        # An empty value is left to the function that reads it.
        name, sign, rest = map(str.strip, text.partition("="))
        if not (name and sign):
            raise ValueError
        return key(name), value(rest)

    return Words("assignment", read, f"{{form}}, such as {example}")


def json_or_text(text: str) -> Any:
    """Return a value that is JSON as JSON, any other as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
