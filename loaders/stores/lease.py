"""A lease on a folder or store that is being written: one owner at a time, whose name others see.

A claim is a small file that is created only if its name is free; network file systems and object stores both decide
that between several writers. Its owner touches it every ten seconds. The age of a touch is measured by the clock of the
folder or store itself, so the clocks of the hosts do not matter. A lease ends soon after its process.
"""

import json
import math
import os
import random
import re
import secrets
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import mkstemp
from typing import Protocol

from ident3d.errors import UserError
from ident3d.loaders.format.files import FULL, TEMPORARY
from ident3d.loaders.format.inside import NotPlain, names_in, open_plain, read_plain
from ident3d.loaders.stores.owners import is_dead, name_of, owner_in, this_process
from ident3d.memory import start_thread

LEASE_PREFIX = ".lease-"
CLAIM = re.compile(r"\.lease-([1-9][0-9]{0,17})")
# Bytes; ours have about 300.
LARGEST_CLAIM = 4096
BEAT_SECONDS = 10.0
LAPSE_SECONDS = 60.0
# A claim is empty while its owner writes it, and stays so if it dies just then.
EMPTY_SECONDS = 5.0
ATTEMPTS = 20


class Busy(UserError):
    """Another living process is writing there."""


def name_of_claim(number: int) -> str:
    return f"{LEASE_PREFIX}{number}"


class Claims(Protocol):
    """The claims on one folder or store, by number."""

    def numbers(self) -> Iterable[int]: ...

    def get(self, number: int) -> bytes | None: ...

    def read(self) -> dict[int, bytes]:
        """Return all of them."""
        return {number: content for number in self.numbers() if (content := self.get(number)) is not None}

    def free(self) -> int:
        """Return a number that nothing there has, whatever it is."""
        return max(self.numbers(), default=0) + 1

    def ages(self) -> Mapping[int, float]: ...  # seconds since each was touched

    def create(self, number: int, content: bytes) -> bool: ...  # False if there is one of this number

    def touch(self, number: int) -> None: ...

    def remove(self, number: int) -> None: ...


class NoConditionalWrite(Exception):
    """The store cannot create an object only if its name is free, so that no lease can be held there."""


class FolderClaims(Claims):
    """Claims on a folder: files `.lease-1`, … in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, number: int) -> Path:
        return self.folder / name_of_claim(number)

    def numbers(self) -> list[int]:
        """Return the numbers of all that has a claim's name, whatever it is."""
        found = (CLAIM.fullmatch(name) for name in names_in(self.folder, ""))
        return [int(match[1]) for match in found if match]

    def free(self) -> int:
        # Not one above the highest: anybody may leave a file with the highest number that there is.
        taken = set(self.numbers())
        return next(number for number in count(1) if number not in taken)

    def get(self, number: int) -> bytes | None:
        # A folder, a FIFO or a link of this name is no claim. It guards nothing, and nobody waits for it.
        try:
            return read_plain(self.folder, name_of_claim(number), LARGEST_CLAIM)
        except (FileNotFoundError, NotPlain):
            return None

    def ages(self) -> dict[int, float]:
        # The time of a new file is now, by the clock of the file system, which may be another host's.
        handle, name = mkstemp(prefix=TEMPORARY, dir=self.folder)
        try:
            os.utime(handle)
            now = os.fstat(handle).st_mtime
        finally:
            os.close(handle)
            Path(name).unlink(missing_ok=True)
        found = {}
        for number in self.numbers():
            # A network file system answers a stat from this host's memory, but asks the server when a file is opened.
            with suppress(FileNotFoundError, NotPlain):
                claim = open_plain(self.folder, name_of_claim(number))
                try:
                    found[number] = now - os.fstat(claim).st_mtime
                finally:
                    os.close(claim)
            # A claim dated in the future would never lapse. It begins to age now; its owner, if it lives, touches it.
            if found.get(number, 0.0) < -BEAT_SECONDS:
                try:
                    self.touch(number)
                except OSError:
                    found[number] = math.inf  # another user's: its date is all that we have
        return found

    def create(self, number: int, content: bytes) -> bool:
        path = self._path(number)
        try:
            file = path.open("xb")
        except FileExistsError:
            return False
        try:
            with file:
                file.write(content)
        except OSError:
            # On a full disk the claim is empty, and would look like that of a process unknown.
            path.unlink(missing_ok=True)
            raise
        return True

    def touch(self, number: int) -> None:
        os.utime(self._path(number), follow_symlinks=False)

    def remove(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)


class Lease:
    """A lease that this process has taken. `check` raises an error if another process has it by now."""

    def __init__(self, place: str, claims: Claims | None, number: int, content: bytes) -> None:
        self.place, self.claims, self.number, self.content = place, claims, number, content

    def check(self) -> None:
        """Raise unless the lease is still ours. Call it before every write that two owners must not both make."""
        if self.claims and not self._is_ours():
            others = [name_of(owner_in(content)) for _, content in sorted(self.claims.read().items())]
            raise UserError(
                f"This process gave no sign of life for so long that {others[-1] if others else 'another process'} "
                f"took over the writing of {self.place}; it stops here, and everything that it finished is kept."
            )

    def _is_ours(self) -> bool:
        return self.claims is not None and self.claims.get(self.number) == self.content

    def beat(self, stop: threading.Event, seconds: float) -> None:
        """Touch the claim every so many seconds, until `stop` is set or another process has the lease."""
        assert self.claims
        while not stop.wait(seconds):
            # The network may fail for a moment. Whether the lease was lost meanwhile, `check` decides.
            with suppress(OSError, UserError):
                if not self._is_ours():
                    return
                self.claims.touch(self.number)

    # A claim that another process has replaced is not ours to remove.
    def release(self) -> None:
        if self.claims and self._is_ours():
            self.claims.remove(self.number)


def lease(
    folder: Path, *, beat_seconds: float = BEAT_SECONDS, lapse_seconds: float = LAPSE_SECONDS
) -> AbstractContextManager[Lease]:
    """Hold the folder for writing. While another living process has it, raise Busy, which names that process.

    A lease lapses if its owner has not touched it for `lapse_seconds`, and at once if its process ran on this host and
    has ended.
    """
    return lease_on(str(folder), FolderClaims(folder), beat_seconds, lapse_seconds)


@contextmanager
def lease_on(place: str, claims: Claims, beat_seconds: float, lapse_seconds: float) -> Iterator[Lease]:
    """Hold the place on which these claims are made. If none can be made there, warn once and go on without a lease."""
    content = json.dumps(this_process() | {"id": secrets.token_hex(16)}).encode()
    try:
        held = Lease(place, claims, make_claim(place, claims, content, lapse_seconds), content)
    except NoConditionalWrite as error:
        warnings.warn(f"{place} is not guarded against a second writer: {error}.", stacklevel=3)
        yield Lease(place, None, 0, content)
        return
    except OSError as error:
        if error.errno in FULL:
            raise
        raise UserError(f"{place} cannot be written: {error.strerror or error}.") from None
    stop = threading.Event()
    try:
        ended = start_thread(partial(held.beat, stop, beat_seconds))
        if not ended:
            raise UserError(f"{place} is not begun: there is not enough memory for a thread that holds it.")
        try:
            yield held
        finally:
            stop.set()
            ended.wait(beat_seconds)
    finally:
        with suppress(OSError, UserError):
            held.release()


def make_claim(place: str, claims: Claims, content: bytes, lapse_seconds: float) -> int:
    """Make a claim, remove the lapsed ones, and return its number. If a living process has a claim, raise Busy."""
    for _ in range(ATTEMPTS):
        there = claims.read()
        ages = claims.ages() if there else {}
        if any(not content and ages.get(number, 0.0) < EMPTY_SECONDS for number, content in there.items()):
            time.sleep(EMPTY_SECONDS / 8)
            continue
        for number, other in there.items():
            if other and not is_dead(owner_in(other)) and ages.get(number, 0.0) < lapse_seconds:
                raise Busy(f"{place} is being written by {name_of(owner_in(other))}; wait for it, or stop it.")
        number = claims.free()
        if claims.create(number, content):
            # Two processes may each have made a claim under another number. The one that sees the other's withdraws
            # its own, and both try again after a random pause.
            if {**claims.read(), number: content} == {**there, number: content}:
                for lapsed in there:
                    claims.remove(lapsed)
                return number
            claims.remove(number)
        time.sleep(random.uniform(0, 0.05))
    raise Busy(f"Many processes are trying to write {place} at this moment; try again.")
