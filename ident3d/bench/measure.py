"""What the benchmarks share: the least CPU time of a step, a process of its own for a measurement, and tables."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tabulate import tabulate

from ident3d.errors import UserError

# a column of a table: its header, and the format of a record or what makes the cell from it
Column = tuple[str, str | Callable[[Any], str]]


def least_cpu_seconds(step: Callable[[int], object], count: int, warm_up: int = 0) -> float:
    """Return the fewest CPU seconds of `count` steps, after some that are not counted.

    Other work on the machine can make a step slower and never faster, so the least is what the step costs.
    """
    taken = []
    for number in range(warm_up + count):
        start = time.process_time()
        step(number)
        taken.append(time.process_time() - start)
    return min(taken[warm_up:])


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the function's result from a fresh process: memory's high-water mark never falls within one."""
    receive, send = multiprocessing.Pipe(duplex=False)
    # A forked child would start with this process's memory and its high-water mark.
    child = multiprocessing.get_context("spawn").Process(target=_answer, args=(send, function, arguments))
    child.start()
    # Now the child alone holds the sending end, so that its death ends the wait below.
    send.close()
    try:
        result, error = receive.recv()
    except EOFError:
        child.join()
        result, error = None, f"exit code {child.exitcode}, perhaps out of memory"
    child.join()
    if error:
        raise UserError(f"{function.__name__} could not be measured: {error}")
    return result


def _answer(send: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        send.send((function(*arguments), None))
    # The parent ends with one sentence, so whatever happened here goes to it as text.
    except Exception as error:
        send.send((None, f"{type(error).__name__}: {error}"))


def table(records: Iterable[Any], columns: Sequence[Column], style: str = "github") -> str:
    """Return one row for each record; a format such as "{0.seconds:.2f}" is filled with the record."""
    rows = [
        [cell.format(record) if isinstance(cell, str) else cell(record) for _, cell in columns] for record in records
    ]
    return tabulate(rows, headers=[header for header, _ in columns], tablefmt=style, disable_numparse=True)
