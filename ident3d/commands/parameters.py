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
    """A word that `read` reads. If it raises ValueError, the error says in one sentence what the option takes."""

    def __init__(self, name: str, read: Callable[[str], Any], takes: str) -> None:
        self.name, self.read, self.takes = name, read, takes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # Click converts defaults as well, which are read already.
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError:
            option, form = (param.opts[0], param.metavar) if param else ("This", None)
            raise UserError(f"{option} takes {self.takes.format(form=form)}, not {value!r}.") from None


def names(*alone: str) -> Words:
    """Names separated by commas, as a tuple; a word of `alone` is given on as it is."""
    return Words("names", lambda text: text if text in alone else tuple(map(str.strip, text.split(","))), "names")


def numbers(kind: type[int] | type[float] = float) -> Words:
    """Numbers separated by commas, as a tuple; whole ones if `kind` is int."""
    what = "whole numbers" if kind is int else "numbers"
    takes = f"{what} separated by commas, such as 0,1,2"
    return Words("numbers", lambda text: tuple(map(kind, text.split(","))), takes)


def number_or(word: str) -> Words:
    """A number, or one word that stands for None."""
    return Words("number", lambda text: None if text == word else float(text), f"a number, or {word}")


def assignment(example: str, value: Callable[[str], Any], key: Callable[[str], Any] = str) -> Words:
    """NAME=VALUE as (name, value), each part read by its own function; `example` goes into the error."""

    def read(text: str) -> tuple[Any, Any]:
        # An empty value is left to the function that reads it.
        name, sign, rest = map(str.strip, text.partition("="))
        if not (name and sign):
            raise ValueError
        return key(name), value(rest)

    return Words("assignment", read, f"{{form}}, such as {example}")


def json_or_text(text: str) -> Any:
    """A value that is JSON as JSON, any other as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
