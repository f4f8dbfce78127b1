"""Fuzz every file that we read: python tests/attack/fuzz.py --count 5000 --seed 1

Each case changes one file in a copy of a sound folder, and our functions read it. They may succeed or raise UserError.
A failure is any other exception, a process that dies, a minute, a file opened for writing outside the case's folder,
or something unpickled. Cases run in forked processes that may have 1.5 GB of memory, a hundred cases each.
"""

import argparse
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

CAP = 1_500_000_000
SECONDS = 60
BATCH = 100
# Part of the names of the targets, to look at some alone.
ONLY = os.environ.get("FUZZ_ONLY", "")


def watch(allowed: Path, seen: list[str]) -> None:
    """Note every opening for writing outside `allowed`, every removal there, and everything that is unpickled."""
    root = os.path.realpath(allowed)

    def outside(path: object) -> bool:
        if isinstance(path, int) or path is None:
            return False
        name = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]  # noqa: PTH100, nothing may be followed
        return not (name.startswith(root) or name.startswith("/dev/"))

    def audit(event: str, given: tuple[object, ...]) -> None:
        if event == "open":
            writes = isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if writes and outside(given[0]):
                seen.append(f"{event} {given[0]!r}")
        elif event in ("os.remove", "os.rmdir", "os.mkdir", "os.rename", "os.symlink", "os.link", "shutil.rmtree"):
            # Of a rename, a link and the like both names count.
            if any(outside(path) for path in given[:2] if isinstance(path, str | bytes | os.PathLike)):
                seen.append(f"{event} {given!r}")
        elif event in ("pickle.find_class", "os.system", "os.exec"):
            seen.append(f"{event} {given!r}")

    sys.addaudithook(audit)


def chosen(number: int) -> str:
    """Return the target of a case: each in turn, or those that FUZZ_ONLY names."""
    from attack.targets import TARGETS

    names = [name for name in TARGETS if ONLY in name]
    return names[number % len(names)]


def run_case(number: int, seed: int, scratch: Path, seen: list[str]) -> dict[str, object]:
    """Run one case; return its target, how its readers fared, and what is wrong."""
    from attack.targets import TARGETS

    from ident3d.errors import UserError

    name = chosen(number)
    target = TARGETS[name]
    case, start = scratch / "case", time.process_time()
    os.environ["XDG_CACHE_HOME"] = str(case / "cache")
    for attempt in range(100):
        rng = Random(f"{seed}/{number}/{attempt}")
        os.chdir(scratch)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(scratch / "sound" / target.uses, case)
        os.chdir(case)
        # Not all that is hostile can be written by the libraries that write it here.
        with suppress(Exception):
            target.change(case, rng)
            break
    fates, wrong = [], []
    for read in rng.sample(target.reads, min(3, len(target.reads))):
        seen.clear()
        try:
            read(case)
            fates.append("read")
        except UserError as error:
            fates.append("refused")
            if len(str(error)) > 5000:
                wrong.append(f"a sentence of {len(str(error)):,} characters")
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            where = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
            wrong.append(f"{type(error).__name__}: {str(error)[:200]} | {where}")
        wrong += seen
    spent = time.process_time() - start
    return {"case": number, "target": name, "fates": fates, "wrong": wrong, "cpu_seconds": spent}


def serve(first: int, stop: int, seed: int, scratch: Path, out: int) -> None:
    """Run cases in this process, with a line before and after each."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (CAP, CAP))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seen: list[str] = []
    watch(scratch, seen)
    for number in range(first, stop):
        os.write(out, (json.dumps({"starts": number}) + "\n").encode())
        os.write(out, (json.dumps(run_case(number, seed, scratch, seen)) + "\n").encode())
    os._exit(0)


def fuzz(first: int, count: int, seed: int, scratch: Path) -> dict[str, Any]:
    """Return what became of the cases, the failures, the largest memory of a process in GB, and the slowest targets."""
    found, seconds = Counter[str](), Counter[str]()
    failures: list[str] = []
    number, stop = first, first + count
    while number < stop:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                serve(number, min(stop, number + BATCH), seed, scratch, writing)
            finally:
                os._exit(1)
        os.close(writing)
        end = min(stop, number + BATCH)
        buffer, running, hung = b"", number, False
        while True:
            ready, _, _ = select.select([reading], [], [], SECONDS)
            if not ready:
                hung = True
                os.kill(child, signal.SIGKILL)
                break
            part = os.read(reading, 65536)
            if not part:
                break
            *lines, buffer = (buffer + part).split(b"\n")
            for line in lines:
                report = json.loads(line)
                if "starts" in report:
                    running = report["starts"]
                    continue
                number = report["case"] + 1
                found[report["target"]] += 1
                for fate in report["fates"]:
                    found[fate] += 1
                seconds[report["target"]] += report["cpu_seconds"]
                for wrong in report["wrong"]:
                    failures.append(f"case {report['case']} ({report['target']}): {wrong}")
                    # At once as well, because a long run takes an hour.
                    print(failures[-1], file=sys.stderr, flush=True)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        # The server died in a case: the next one begins after it.
        if number < end:
            why = f"took more than {SECONDS} s" if hung else f"died with status {status}"
            failures.append(f"case {running} ({chosen(running)}): {why}")
            number = running + 1
    slowest = {name: round(spent) for name, spent in seconds.most_common(5)}
    largest = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6, 2)
    return {"found": found, "failures": failures, "largest_gb": largest, "cpu_seconds": slowest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first case, to run one again")
    given = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        (scratch / "tmp").mkdir()
        os.environ |= {"TMPDIR": str(scratch / "tmp"), "HOME": str(scratch), "MPLCONFIGDIR": str(scratch)}
        # The tests that start us may have chosen a folder for compiled code.
        os.environ |= {"XDG_CACHE_HOME": str(scratch / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor")}
        tempfile.tempdir = None
        sys.path.insert(0, str(Path(__file__).parents[1] / "shapes"))
        from attack.targets import make_folders

        (scratch / "cache").mkdir()
        make_meshes(scratch)
        make_folders(scratch / "sound", Path(__file__).parents[1] / "data/v0.1", scratch / "cache")
        report = {"cases": given.count, **fuzz(given.first, given.count, given.seed, scratch)}
    print(json.dumps(report, indent=1))


def make_meshes(scratch: Path) -> None:
    """Put small meshes of our own into the cache."""
    from shapes.stars import obj_bytes, star

    from ident3d.shapes.library import meshes
    from ident3d.shapes.sources import SOURCES

    (scratch / "obj").mkdir()
    for rays, kind in enumerate(SOURCES, start=2):
        (scratch / "obj" / f"{kind}.obj").write_bytes(obj_bytes(*star(rays)))
    meshes(directory=scratch / "obj", accept_terms=True)


if __name__ == "__main__":
    main()
