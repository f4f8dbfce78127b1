"""Ctrl-C and a batch system's stop end a run after the step that is under way, with its state saved."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stoppable(wanted: bool = True) -> Iterator[Callable[[], bool]]:
    """Give a function that returns whether a stop was asked for. A second Ctrl-C stops at once.

    If it is not `wanted`, signals do what they always do: one of several ranks cannot stop alone.
    """
    asked = threading.Event()
    # The main thread alone gets signals.
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
