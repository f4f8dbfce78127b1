"""What a pickle of NumPy arrays is made of: the few calls and states that its operations may do, and no others."""

from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Names and sides of arrays may be as long as the file; what a message shows of them is not.
SHOWN, LONGEST_SIDE = 80, 2**40
# The types that an array may have: truth values and numbers.
DTYPES: Final = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}
NUMPY: Final = ("numpy.core.", "numpy._core.")
MARK: Final = object()


class Refused(ValueError):
    """A pickle that holds anything else, or is damaged. The message says what."""


@dataclass
class Named:
    """A name that the pickle calls; it stands for itself and is never looked up."""

    name: str


@dataclass
class Dtype:
    """An array's type: its code, and the order of its bytes, which comes later."""

    code: str
    order: str = "<"


@dataclass
class Unfilled:
    """An array before its content has come."""

    array: NDArray[Any] | None = None


class Parts(tuple[Any, ...]):
    """A tuple for a call or a state: it has parts, such as names, that no value has."""


class Stack(list[Any]):
    """What operations work on, and how many bytes they may make of texts: no more than there are in the file.

    Otherwise a text that stands there once could be turned into bytes again and again.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def encode(self, text: Any) -> bytes:
        made = str.encode(text, "latin1")
        self.room -= len(made)
        if self.room < 0:
            raise Refused("it makes more bytes than it has")
        return made


def finished(value: Any) -> Any:
    """Return a value that may stay: of an array before its content came, and of names, nothing may."""
    if isinstance(value, Unfilled) and value.array is not None:
        return value.array
    if isinstance(value, Named | Dtype | Unfilled | Parts) or value is MARK:
        raise Refused(f"it holds {getattr(value, 'name', 'an unfinished array')[:SHOWN]}")
    return value


def call(stack: Stack) -> None:
    """Make what a call of one of the few names that arrays need would make."""
    arguments, called = stack.pop(), stack.pop()
    name = called.name if isinstance(called, Named) else "what is no name"
    for package in NUMPY:
        name = name.replace(package, "numpy.", 1) if name.startswith(package) else name
    if name == "numpy.multiarray._reconstruct" and arguments[0] == Named("numpy.ndarray"):
        stack.append(Unfilled())
    elif name == "numpy.numeric._frombuffer":
        # A later NumPy adds the order of the axes, where memory is neither in C's nor in Fortran's.
        data, dtype, shape, order, axes = (*arguments, None)[:5]
        if order not in ("C", "F") and not (order == "K" and isinstance(axes, tuple)):
            raise Refused("an array has no known order of axes")
        array = array_of(shape, dtype, order == "F", data)
        stack.append(array.transpose(axes) if order == "K" else array)
    elif name == "numpy.dtype" and isinstance(arguments[0], str) and arguments[0] in DTYPES:
        stack.append(Dtype(arguments[0]))
    # How the oldest pickles say bytes.
    elif name == "_codecs.encode" and arguments[1] == "latin1":
        stack.append(stack.encode(arguments[0]))
    elif name in ("__builtin__.bytes", "builtins.bytes") and arguments == ():
        stack.append(b"")
    else:
        of = f" of {arguments[0][:SHOWN]!r}" if name == "numpy.dtype" and isinstance(arguments[0], str) else ""
        raise Refused(f"it calls {name[:SHOWN]}{of}")


def build(stack: Stack) -> None:
    """Give an array or a type its content."""
    state, built = stack.pop(), stack[-1]
    if isinstance(built, Dtype):
        if state[1] not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise Refused("an array's type has fields, or no known order of bytes")
        built.order = state[1]
    elif isinstance(built, Unfilled):
        _, shape, dtype, is_fortran, data = state
        # Of Python 2 an array's bytes come as a text.
        data = stack.encode(data) if isinstance(data, str) else data
        built.array = array_of(shape, dtype, is_fortran, data)
    else:
        raise Refused("it gives a state to what is no array")


def array_of(shape: Any, dtype: Any, is_fortran: Any, data: Any) -> NDArray[Any]:
    """Return the array of these bytes, which must be as many as its shape and type say."""
    if not isinstance(dtype, Dtype) or not isinstance(data, bytes | bytearray) or not isinstance(shape, tuple):
        raise Refused("an array has no type, shape or bytes")
    # A shape that is none is not shown: tuples that hold each other are short in a file, and endless in words.
    if len(shape) > 32 or not all(type(side) is int and 0 <= side < LONGEST_SIDE for side in shape):
        raise Refused("an array has a shape that is none")
    kind = np.dtype(dtype.order.replace("|", "=") + dtype.code)
    if len(data) != prod(shape) * kind.itemsize:
        raise Refused(f"an array of the shape {shape} has {len(data)} bytes")
    return np.frombuffer(memoryview(data).toreadonly(), kind).reshape(shape, order="F" if is_fortran else "C")
