"""What the benchmarks share: the least CPU time of a step, a process of its own for a measurement, and tables."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Annotated, Any, NamedTuple, TypeVar, get_origin, get_type_hints

from tabulate import tabulate

from ident3d.errors import UserError

# a column of a table: its header, and the format of a record or what makes the cell from it
Column = tuple[str, str | Callable[[Any], str]]
Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Return the CPU seconds of the work, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def least_cpu_seconds(step: Callable[[int], object], count: int, warm_up: int = 0) -> float:
    """Return the fewest CPU seconds of `count` steps, after some that are not counted.

    Other work on the machine can make a step slower and never faster, so the least is what the step costs.
    """
    return min([timed(partial(step, number))[0] for number in range(warm_up + count)][warm_up:])


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the function's result from a fresh process: memory's high-water mark never falls within one."""
    # A forked child would start with this process's memory and its high-water mark.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(function, *arguments).result()
        # Whatever happened there, also that the process died, perhaps for want of memory, ends with one sentence.
        except Exception as error:
            raise UserError(f"{function.__name__} could not be measured ({type(error).__name__}): {error}") from None


class Shown(NamedTuple):
    """How a table shows a field of a record: under which title, and as which format. It annotates the field's type."""

    title: str
    form: str = ""


def columns_of(kind: type) -> list[Column]:
    """Return the columns of a record's fields that are shown; a value that is None is a dash."""

    def cell(name: str, form: str, record: Any) -> str:
        value = getattr(record, name)
        return "-" if value is None else format(value, form)

    hints = get_type_hints(kind, include_extras=True).items()
    shown = {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}
    return [(title, partial(cell, name, form)) for name, (title, form) in shown.items()]


def table(records: Iterable[Any], columns: Sequence[Column] = (), style: str = "github") -> str:
    """Return one row for each record; a format such as "{0.seconds:.2f}" is filled with the record.

    The columns are by default the fields that are annotated with Shown.
    """
    records = list(records)
    columns = columns or columns_of(type(records[0]))
    rows = [
        [cell.format(record) if isinstance(cell, str) else cell(record) for _, cell in columns] for record in records
    ]
    return tabulate(rows, headers=[header for header, _ in columns], tablefmt=style, disable_numparse=True)
