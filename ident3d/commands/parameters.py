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
    """A type whose errors are one sentence that names the option and an example."""

    def error(self, param: click.Parameter | None, takes: str, value: str) -> UserError:
        return UserError(f"{param.opts[0] if param else 'This'} takes {takes}, not {value!r}.")


class Names(Words):
    """Names separated by commas, as a tuple; a word of `alone` is given on as it is."""

    name = "names"

    def __init__(self, *alone: str) -> None:
        self.alone = alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | tuple[str, ...]:
        if not isinstance(value, str) or value in self.alone:
            return value  # type: ignore[no-any-return]
        return tuple(part.strip() for part in value.split(","))


class Numbers(Words):
    """Numbers separated by commas, as a tuple; whole ones if `kind` is int."""

    name = "numbers"

    def __init__(self, kind: type[int] | type[float] = float) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            # Click converts defaults as well, which are tuples already.
            return tuple(map(self.kind, value.split(","))) if isinstance(value, str) else value
        except ValueError:
            numbers = "whole numbers" if self.kind is int else "numbers"
            raise self.error(param, f"{numbers} separated by commas, such as 0,1,2", value) from None


class NumberOr(Words):
    """A number, or one word that stands for None."""

    name = "number"

    def __init__(self, word: str) -> None:
        self.word = word

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        try:
            return None if value == self.word else float(value)
        except ValueError:
            raise self.error(param, f"a number, or {self.word}", value) from None


class Assignment(Words):
    """NAME=VALUE as (name, value), each part read by its own function; `example` goes into the error."""

    name = "assignment"

    def __init__(self, example: str, value: Callable[[str], Any], key: Callable[[str], Any] = str) -> None:
        self.example, self.value, self.key = example, value, key

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, Any]:
        # An empty value is left to the function that reads it.
        name, sign, text = (part.strip() for part in value.partition("="))
        try:
            if name and sign:
                return self.key(name), self.value(text)
        except ValueError:
            pass
        raise self.error(param, f"{param.metavar if param else 'NAME=VALUE'}, such as {self.example}", value)


def json_or_text(text: str) -> Any:
    """A value that is JSON as JSON, any other as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
