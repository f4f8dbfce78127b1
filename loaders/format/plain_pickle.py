"""Pickles of NumPy arrays and plain containers, read without running anything that they name.

Python's own reader calls what a pickle tells it to, and has parts that take any amount of memory. Here each operation
is looked at, and only those are done that build numbers, texts, bytes, lists, tuples, dicts and arrays.
"""

import io
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

from ident3d.loaders.format.pickled_arrays import MARK, Named, Parts, Refused, Stack, build, call, finished

# Ten times those of any data set of ours. An operation of a byte may make a hundred bytes of memory.
MOST_OPERATIONS: Final = 1_000_000


class Bounded:
    """A file of which no more is asked for than it holds, so that a length that lies takes no memory."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size

    def read(self, count: int) -> bytes:
        if count > self.size - self.file.tell():
            raise Refused("it ends in the middle")
        return self.file.read(count)

    def readline(self) -> bytes:
        return self.file.readline()

    def tell(self) -> int:
        return self.file.tell()


def read_plain_pickle(path: Path) -> Any:
    """Return what a pickle file holds, if it is of arrays, numbers, texts and containers; raise Refused if it is not.

    Arrays are read-only.
    """
    with path.open("rb") as file:
        return read_bounded(Bounded(file, path.stat().st_size))


def plain_pickle_of(data: bytes) -> Any:
    """Return what the bytes of a pickle hold, as `read_plain_pickle` does of a file."""
    return read_bounded(Bounded(io.BytesIO(data), len(data)))


def read_bounded(file: Bounded) -> Any:
    """Read a pickle; what fails because it is none, or a damaged one, becomes Refused."""
    try:
        return read(file)
    except Refused:
        raise
    except (OSError, MemoryError):
        raise
    # What pickletools and the stack raise for bytes that are no pickle, or a pickle that makes no sense.
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Refused("it is no pickle, or a damaged one") from error


def read(file: Bounded) -> Any:
    """Do the operations of a pickle one by one, and return what is left when it stops."""
    stack = Stack(file.size)
    memo: dict[Any, Any] = {}
    for number, (operation, given, _) in enumerate(pickletools.genops(file)):  # type: ignore[arg-type]
        name = operation.name
        if number > MOST_OPERATIONS:
            raise Refused(f"it has more than {MOST_OPERATIONS:,} operations")
        if name == "STOP":
            return finished(stack.pop())
        if name in VALUES:
            stack.append(given)
        elif name in ("NONE", "NEWTRUE", "NEWFALSE"):
            stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[given] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[given])
        elif name in OPERATIONS:
            OPERATIONS[name](stack)
        elif name == "GLOBAL":
            stack.append(Named(str(given).replace(" ", ".")))
        elif name not in ("PROTO", "FRAME"):
            raise Refused(f"it does what no array or container needs ({name})")
    raise Refused("it ends in the middle")


VALUES: Final = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    # Python 2 wrote texts and bytes alike; both are read as texts.
    "BINSTRING", "SHORT_BINSTRING",
}  # fmt: skip


def since_mark(stack: list[Any]) -> list[Any]:
    """Take all that was put on the stack since the last mark, and the mark."""
    for place in range(len(stack) - 1, -1, -1):
        if stack[place] is MARK:
            found = stack[place + 1 :]
            del stack[place:]
            return found
    raise Refused("a mark is missing")


def join_name(stack: list[Any]) -> None:
    name, module = stack.pop(), stack.pop()
    stack.append(Named(f"{module}.{name}"))


def fill_list(stack: list[Any], items: list[Any]) -> None:
    if not isinstance(stack[-1], list):
        raise Refused("something is appended to what is no list")
    stack[-1].extend(map(finished, items))


def fill_dict(stack: list[Any], items: list[Any]) -> None:
    keys = items[::2]
    if not isinstance(stack[-1], dict) or len(items) % 2 or not all(isinstance(key, str) for key in keys):
        raise Refused("something is entered into what is no dict, or under what is no text")
    stack[-1].update(zip(keys, map(finished, items[1::2]), strict=True))


def make_dict(stack: list[Any]) -> None:
    items = since_mark(stack)
    stack.append({})
    fill_dict(stack, items)


def tuple_of(count: int) -> Callable[[Stack], None]:
    return lambda stack: stack.append(as_tuple([stack.pop() for _ in range(count)][::-1]))


def as_tuple(items: list[Any]) -> tuple[Any, ...]:
    """Return the items as a value, or, if one of them may not stay, as parts of a call or a state."""
    try:
        return tuple(map(finished, items))
    except Refused:
        return Parts(items)


OPERATIONS: Final[dict[str, Callable[[Stack], object]]] = {
    "MARK": lambda stack: stack.append(MARK),
    "EMPTY_LIST": lambda stack: stack.append([]),
    "EMPTY_DICT": lambda stack: stack.append({}),
    "EMPTY_TUPLE": lambda stack: stack.append(()),
    "LIST": lambda stack: stack.append(list(map(finished, since_mark(stack)))),
    "DICT": make_dict,
    "TUPLE": lambda stack: stack.append(as_tuple(since_mark(stack))),
    "TUPLE1": tuple_of(1),
    "TUPLE2": tuple_of(2),
    "TUPLE3": tuple_of(3),
    "APPEND": lambda stack: fill_list(stack, [stack.pop()]),
    "APPENDS": lambda stack: fill_list(stack, since_mark(stack)),
    "SETITEM": lambda stack: fill_dict(stack, [stack.pop(-2), stack.pop()]),
    "SETITEMS": lambda stack: fill_dict(stack, since_mark(stack)),
    "STACK_GLOBAL": join_name,
    "REDUCE": call,
    "BUILD": build,
}  # fmt: skip
