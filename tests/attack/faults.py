"""A storm of faults during repairs: python tests/attack/faults.py --count 200 --seed 1

A damaged dataset is repaired while something fails: another process holds locks on its files, system calls on them fail
once, some times or from then on, memory or open files run out, files may not grow. Afterwards every sound shard is in
its place with its sha256, what is broken was moved and not lost, nothing outside has changed, no traceback was printed,
and the next repair ends as if nothing had ever failed.
"""

import argparse
import errno
import fcntl
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack.forked import (
    LOCKS,
    NAMES,
    OPENS,
    READS,
    STATS,
    WRITES,
    Ended,
    Forked,
    begin_again,
    compile_shim,
    count_calls,
    shim,
    strike,
)

SHARDS = 5
# Which calls may fail in which way.
ERRORS = {
    "EIO": (errno.EIO, READS | WRITES | OPENS | NAMES | STATS),
    "ESTALE": (errno.ESTALE, READS | WRITES | OPENS | STATS),
    "ENOSPC": (errno.ENOSPC, WRITES | OPENS | NAMES),
    "EDQUOT": (errno.EDQUOT, WRITES | OPENS | NAMES),
    "EROFS": (errno.EROFS, OPENS | NAMES),
    "EACCES": (errno.EACCES, OPENS | NAMES | STATS),
    "EPERM": (errno.EPERM, OPENS | NAMES | WRITES),
    "EMFILE": (errno.EMFILE, OPENS),
    "ENFILE": (errno.ENFILE, OPENS),
    "ENOMEM": (errno.ENOMEM, READS | OPENS | STATS),
    "ENOLCK": (errno.ENOLCK, LOCKS),
}
LIMITS = ("locks", "memory", "open files", "file size")


def flip(file: Path, rng: Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def cut(file: Path, rng: Random) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size))


def empty(file: Path, rng: Random) -> None:
    file.write_bytes(b"")


def lose(file: Path, rng: Random) -> None:
    file.unlink()


DAMAGES = (flip, cut, empty, lose)
SMALL = ("shards.jsonl", "dataset.json", "all_latents.npy", "packed.json", "images.u8")


def damage(path: Path, rng: Random) -> list[str]:
    """Damage up to one shard and two other files; return the damaged shards."""
    shards = [f"{rng.randrange(SHARDS):05d}.h5"] if rng.random() < 0.6 else []
    for name in shards:
        rng.choice(DAMAGES)(path / "shards" / name, rng)
    for name in rng.sample(SMALL, rng.choice((0, 0, 1, 1, 2))):
        rng.choice(DAMAGES)(path / name, rng)
    return shards


def hashes(path: Path) -> dict[str, str]:
    """Return the hash of every file below the folder."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    return {str(file.relative_to(path)): sha256(file.read_bytes()).hexdigest() for file in files}


def lasting(path: Path) -> dict[str, str]:
    """Return what a repair has to agree on: all but what it set aside.

    The packed file of an unfinished dataset is neither used nor judged.
    """
    from ident3d.loaders.format.description import read_description

    finished = (path / "dataset.json").exists() and read_description(path).complete
    unused = () if finished else ("packed.json", "images.u8")
    return {
        name: value for name, value in hashes(path).items() if not name.startswith("removed-") and name not in unused
    }


def said(ended: Ended) -> list[str]:
    """Return what a repair said, without the progress bar and the time in a folder's name."""
    text = re.sub(r"removed-\w+(-\d+)?", "removed", ended.text)
    return [line for line in re.split(r"[\r\n]+", text) if "%|" not in line]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process holds an exclusive lock of both kinds on every file."""
    ready, done = os.pipe()
    child = os.fork()
    if not child:
        held = [file.open("rb+") for file in path.rglob("*") if file.is_file()]
        for file in held:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.lockf(file, fcntl.LOCK_EX)
        os.write(done, b"x")
        while True:
            time.sleep(60)
    os.read(ready, 1)
    try:
        yield
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(done)


def limit(kind: str, rng: Random) -> Callable[[], None]:
    """Return what limits a process: its memory, its open files, or the size of the files that it writes."""
    share = rng.random()

    def set_limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        name, most = {
            "memory": (resource.RLIMIT_AS, pages * resource.getpagesize() + int(share**2 * 2**22)),
            "open files": (resource.RLIMIT_NOFILE, 3 + int(share * 12)),
            "file size": (resource.RLIMIT_FSIZE, int(share**2 * 20_000)),
        }[kind]
        resource.setrlimit(name, (most, resource.getrlimit(name)[1]))

    return set_limit


class Storm:
    """The folders of a storm, and what it has found."""

    def __init__(self, scratch: Path, seed: int) -> None:
        from synthetic import make_dataset

        from ident3d.loaders.folders.packed import pack

        self.seed = seed
        self.start, self.path = scratch / "start", scratch / "case/set"
        self.faults, self.showed, self.failures = Counter[str](), 0, list[str]()
        (scratch / "case").mkdir(parents=True)
        for name in ("beside", "shards", "removed-by-nobody"):
            (scratch / "case" / name).mkdir()
            (scratch / "case" / name / "00000.h5").write_bytes(b"somebody's own work")
        # In a process of its own, so that this one starts no threads, which forked processes would lack.
        child = os.fork()
        if not child:
            try:
                make_dataset(self.start, 4 * SHARDS - 1, size=32, shard_size=4)
                pack(self.start, show_progress=False)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        self.sound = {file.name: sha256(file.read_bytes()).hexdigest() for file in (self.start / "shards").iterdir()}

    def prepare(self, number: int) -> tuple[list[str], bool]:
        """Lay out the damaged folder of a case; return its damaged shards, and whether to delete."""
        rng = Random(f"{self.seed}/{number}")
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.start, self.path)
        return damage(self.path, rng), rng.random() < 0.3

    def repair(self, delete: bool, before: Callable[[], object] | None = None, *, calls: bool = False) -> Ended:
        words = ["verify", str(self.path), "--repair", *(["--delete"] if delete else [])]
        return Forked(words, before, calls=calls).wait()

    def outside(self) -> dict[str, str]:
        return {name: value for name, value in hashes(self.path.parent).items() if not name.startswith("set/")}

    def run_case(self, number: int) -> None:
        """Repair without a fault, then with one, then again without; compare."""
        rng = Random(f"{self.seed}/{number}/fault")
        broken, delete = self.prepare(number)
        before = hashes(self.path)
        kinds = [*(ERRORS if shim() else ()), *LIMITS]
        kind = kinds[number % len(kinds)]
        error, calls = ERRORS.get(kind, (0, 0))
        undisturbed = self.repair(delete, (lambda: count_calls(self.path, calls)) if error else None, calls=bool(error))
        due, outside = lasting(self.path), self.outside()
        self.check(number, kind, broken, delete, before, outside, undisturbed)
        self.prepare(number)
        if error:
            # The first calls open the folder itself, which fails in one way only.
            first, times = rng.randrange(max(1, undisturbed.calls)), rng.choice((1, 1, 3, 10**9))
            kind += f" of call {first} of {undisturbed.calls}, {times} times"
            ended = self.repair(delete, lambda: strike(self.path, first, error=error, times=times, kinds=calls))
        elif kind == "locks":
            with locked(self.path):
                ended = self.repair(delete)
        else:
            ended = self.repair(delete, limit(kind, rng))
        self.faults[kind.partition(" of call")[0]] += 1
        self.showed += ended.code != undisturbed.code or said(ended) != said(undisturbed)
        self.check(number, kind, broken, delete, before, outside, ended)
        again = self.repair(delete)
        self.check(number, f"{kind}, again", broken, delete, before, outside, again)
        now = lasting(self.path)
        other = [name for name in sorted({*now, *due}) if now.get(name) != due.get(name)]
        if other:
            self.note(number, kind, f"{', '.join(other)} differ in the end:\n{ended.text}\n{again.text}")

    def check(
        self,
        number: int,
        kind: str,
        broken: list[str],
        delete: bool,
        before: dict[str, str],
        outside: dict[str, str],
        ended: Ended,
    ) -> None:
        """Note what a repair, disturbed or not, must never do."""
        if ended.code not in (0, 1, 2, 3) or "Traceback" in ended.text:
            self.note(number, kind, f"exit code {ended.code}: {ended.text[-1500:]}")
        now = hashes(self.path)
        for name, value in self.sound.items():
            if name not in broken and now.get(f"shards/{name}") != value:
                self.note(number, kind, f"the sound shard {name} is not in its place: {ended.text[-600:]}")
        for name in () if delete else broken:
            value = before.get(f"shards/{name}")
            if value and value not in now.values():
                self.note(number, kind, f"the broken shard {name} is lost")
        if self.outside() != outside:
            self.note(number, kind, "something outside has changed")

    def note(self, number: int, kind: str, what: str) -> None:
        self.failures.append(f"case {number}, {kind}: {what}")
        print(self.failures[-1], file=sys.stderr, flush=True)


def storm(first: int, count: int, seed: int, scratch: Path) -> dict[str, Any]:
    """Run so many cases, and return the counts and the failures."""
    found = Storm(scratch, seed)
    for number in range(first, first + count):
        found.run_case(number)
    # A fault may come where nothing is asked for any more; those that showed are counted.
    return {"faults": found.faults, "showed": found.showed, "failures": found.failures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first case, to run one again")
    given = parser.parse_args()
    if "STORM_SCRATCH" not in os.environ:
        scratch = Path(tempfile.mkdtemp()).resolve()
        os.environ["STORM_SCRATCH"] = str(scratch)
        begin_again(compile_shim(scratch))
    scratch = Path(os.environ["STORM_SCRATCH"])
    try:
        import ident3d.commands.verify
        import ident3d.loaders.folders.verify  # noqa: F401

        report = storm(given.first, given.count, given.seed, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
