"""What commands print and ask, how they end when interrupted, and where their files lie."""

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click


def show(result: Any, as_json: bool, text: str | None = None, **more: Any) -> None:
    """Print a result as JSON, with `more` figures, or as its text; by default that is its table."""
    if not as_json:
        click.echo(result.table() if text is None else text)
        return
    # Records are dataclasses; those with more to print than their fields have as_dict.
    if not isinstance(result, dict | list):
        result = result.as_dict() if hasattr(result, "as_dict") else asdict(result)
    # Names keep their accents, and paths are printed as text.
    click.echo(json.dumps(result | more if more else result, indent=2, ensure_ascii=False, default=os.fspath))


def confirmed(question: str) -> bool:
    """Ask on standard error; no answer, as from a script, means no."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


@contextmanager
def interruptible(sentence: str = "the same command with --resume goes on from the last checkpoint.") -> Iterator[None]:
    """End an interrupted run with what the user can do, and the exit code that shells give for Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted; {sentence}", err=True)
        raise click.exceptions.Exit(130) from None


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print our own warnings as plain sentences on standard error."""

    def echo(message: Warning | str, *_: Any, **__: Any) -> None:
        click.echo(f"Note: {message}", err=True)

    # showwarning is put back as well, at the end of the block.
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = echo
        yield


def next_to(directory: Path | str, ending: str) -> Path:
    """Return the path of a file next to a dataset and named after it; of one in a store, in the current folder."""
    # A dataset in a store has no folder next to it.
    if isinstance(directory, str):
        return Path(directory.rstrip("/").rpartition("/")[2] + ending)
    return directory.resolve().with_name(f"{directory.resolve().name}{ending}")
