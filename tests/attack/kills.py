"""A storm of kills: python tests/attack/kills.py --count 500 --seed 1 --render

A command is killed by SIGKILL, at a random moment or just before a random system call on its files, up to four times in
a row. Then the same command has to end as an undisturbed one does, with equal bytes. After each kill nothing that was
there and stays is lost, every file of data is whole, and what was entered as finished is not made again.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack.forked import Ended, Forked, begin_again, compile_shim, count_calls, shim, strike

# They hold times: when a run began, how fast it was.
TIMED = ("provenance.json", "README.md", "run.json", "metrics.jsonl", "report.html")
DATA = (".h5", ".png", ".npy", ".u8", ".tar")
MOST_KILLS = 4


@dataclass(frozen=True)
class Subject:
    """A command, and what it starts from: `make` fills an empty folder."""

    make: Callable[[Path], object]
    words: Callable[[Path], Sequence[object]]


@dataclass
class Undisturbed:
    """What a command does that nobody disturbs: its files before and after, its exit code, seconds and system calls."""

    before: dict[str, str]
    after: dict[str, str]
    ended: Ended


def dataset(case: Path) -> None:
    from synthetic import make_dataset

    make_dataset(case / "set", 24, shard_size=4)


def published(case: Path) -> None:
    from ident3d.loaders.exports.exporting import export

    dataset(case)
    export(case / "set", case / "published/train", show_progress=False)
    shutil.rmtree(case / "set")


def archive(case: Path) -> None:
    published(case)
    shutil.make_archive(str(case / "published"), "gztar", case, "published")
    shutil.rmtree(case / "published")


def broken_shard(case: Path) -> None:
    """One shard in six is broken, and so is the packed file."""
    from ident3d.loaders.folders.packed import pack

    dataset(case)
    pack(case / "set", show_progress=False)
    for name in ("shards/00003.h5", "images.u8"):
        data = bytearray((case / "set" / name).read_bytes())
        data[len(data) // 2] ^= 1
        (case / "set" / name).write_bytes(data)


def lost_manifest(case: Path) -> None:
    dataset(case)
    (case / "set/shards.jsonl").write_bytes(b"")
    (case / "set/dataset.json").write_bytes(b"{")


def rendered(case: Path) -> None:
    from ident3d import Recipe, render

    render(4, Recipe(size=16, quality="draft"), out=case / "set", workers=1, shard_size=1, show_progress=False)


def unclosed(case: Path) -> None:
    """All shards are there, but half of them are not entered, and the dataset is not closed."""

    from ident3d.loaders.format.description import read_description, write_description

    rendered(case)
    path = case / "set"
    write_description(path, read_description(path).as_incomplete())
    lines = (path / "shards.jsonl").read_text().splitlines(keepends=True)
    (path / "shards.jsonl").write_text("".join(lines[:2]))
    for name in ("README.md", "sample.png", "all_latents.npy"):
        (path / name).unlink()


def render_words(case: Path) -> Sequence[object]:
    words = ["render", "--n", 4, "--size", 16, "--quality", "draft", "--shard-size", 1, "--workers", 1]
    return [*words, "--out", case / "set"]


def train_words(case: Path) -> Sequence[object]:
    words = ["train", case / "set", "--out", case / "run", "--encoder", "tiny:plain", "--batch", 16, "--steps", 12]
    words += ["--save-every", 1, "--log-every", 1, "--workers", 0, "--device", "cpu", "--dtype", "fp32", "--resume"]
    return words


SUBJECTS = {
    "pack": Subject(dataset, lambda case: ["pack", case / "set"]),
    "export": Subject(dataset, lambda case: ["export", case / "set", case / "out"]),
    "export to tar files": Subject(
        dataset, lambda case: ["export", case / "set", case / "out", "--to", "webdataset", "--part-size", 5]
    ),
    "export to PNG files": Subject(dataset, lambda case: ["export", case / "set", case / "out", "--to", "png"]),
    "import": Subject(published, lambda case: ["import", case / "published", case / "set", "--workers", 1]),
    "import of an archive": Subject(
        archive, lambda case: ["import", case / "published.tar.gz", case / "set", "--workers", 1]
    ),
    "repair": Subject(broken_shard, lambda case: ["verify", case / "set", "--repair"]),
    "repair of a lost manifest": Subject(lost_manifest, lambda case: ["verify", case / "set", "--repair"]),
    "train": Subject(dataset, train_words),
}
RENDERING = {
    "render, closing": Subject(unclosed, render_words),
    "render": Subject(lambda case: None, render_words),
}


def contents(case: Path) -> dict[str, str]:
    """Return the hash of every file; what a repair has set aside goes by its old name alone, of whatever time."""
    found = {}
    for file in sorted(case.rglob("*")):
        if not file.is_file():
            continue
        parts = list(file.relative_to(case).parts)
        aside = [k for k, part in enumerate(parts) if part.startswith("removed-")]
        for k in aside:
            parts[k] = "removed"
        timed = file.name in TIMED or (aside and file.suffix != ".h5")
        found["/".join(parts)] = "there" if timed else sha256(file.read_bytes()).hexdigest()
    return found


def entered(case: Path) -> dict[str, int]:
    """Return when each shard was written that the manifest has entered."""
    from ident3d.loaders.format.manifest import readable_entries

    path = case / "set"
    files = [path / "shards" / entry.name for entry in readable_entries(path)] if path.is_dir() else []
    return {file.name: file.stat().st_mtime_ns for file in files if file.is_file()}


def lost_or_torn(now: dict[str, str], due: Undisturbed) -> list[str]:
    """Return what is wrong with the files that a killed command leaves."""
    kept = {name: value for name, value in due.after.items() if due.before.get(name) == value}
    wrong = [f"{name} is lost" for name, value in kept.items() if now.get(name) != value]
    for name, value in now.items():
        whole = {due.before.get(name), due.after.get(name), due.before.get(name.replace("removed/", ""))}
        if name.endswith(DATA) and not name.rpartition("/")[2].startswith(".") and value not in whole:
            wrong.append(f"{name} is torn")
    return wrong


class Storm:
    """The folders of a storm, what it has found, and how many kills there were of each kind."""

    def __init__(self, scratch: Path, subjects: dict[str, Subject], seed: int) -> None:
        self.scratch, self.subjects, self.seed = scratch, subjects, seed
        self.case = scratch / "case"
        self.kills, self.failures, self.runs = Counter[str](), list[str](), 0
        self.due = {name: self.undisturbed(name, subject) for name, subject in subjects.items()}

    def prepare(self, name: str) -> None:
        shutil.rmtree(self.case, ignore_errors=True)
        shutil.copytree(self.scratch / "start" / name, self.case)

    def start(self, name: str, prepare: Callable[[], object] | None = None, *, calls: bool = False) -> Forked:
        self.runs += 1
        words = [str(word) for word in self.subjects[name].words(self.case)]
        return Forked(words, prepare, calls=calls)

    def undisturbed(self, name: str, subject: Subject) -> Undisturbed:
        # In a process of its own, so that this one starts no threads, which forked processes would lack.
        (self.scratch / "start" / name).mkdir(parents=True)
        child = os.fork()
        if not child:
            status = 1
            try:
                subject.make(self.scratch / "start" / name)
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, name
        self.prepare(name)
        before = contents(self.case)
        counting = bool(shim())
        ended = self.start(name, (lambda: count_calls(self.case)) if counting else None, calls=counting).wait()
        assert ended.code in (0, 1), ended.text
        return Undisturbed(before, contents(self.case), ended)

    def round(self, name: str, number: int) -> None:
        """Kill a command some times, and let it end."""
        rng, due = Random(f"{self.seed}/{number}"), self.due[name]
        self.prepare(name)
        kept, moments = dict[str, int](), list[str]()
        for _ in range(rng.randint(1, MOST_KILLS)):
            moment, process = self.strike(name, rng, due)
            if not moment:
                self.check_end(name, number, moments, process.wait(), kept)
                return
            moments.append(moment)
            self.kills[f"{name}, {moment.partition(' ')[0]}"] += 1
            self.note(name, number, moments, lost_or_torn(contents(self.case), due))
            kept |= entered(self.case)
            # An export that died after its last write is finished, and a finished one is not begun again.
            if name == "export" and contents(self.case) == due.after:
                return
        self.check_end(name, number, moments, self.start(name).wait(), kept)

    def strike(self, name: str, rng: Random, due: Undisturbed) -> tuple[str, Forked]:
        """Start the command and kill it; return when, or nothing if it ended first."""
        if due.ended.calls and rng.random() < 0.5:
            call = rng.randrange(due.ended.calls)
            process = self.start(name, lambda: strike(self.case, call, error=0))
            ended = process.wait()
            self.end_orphans(process.pid)
            return (f"call {call}" if ended.code == -signal.SIGKILL else ""), process
        process = self.start(name)
        seconds = rng.uniform(0, due.ended.seconds)
        while process.running() and time.monotonic() < process.begun + seconds:
            time.sleep(0.0005)
        if not process.running():
            return "", process
        process.kill()
        process.wait()
        self.end_orphans(process.pid)
        return f"time {seconds:.3f}", process

    def end_orphans(self, session: int) -> None:
        """Wait until the workers of a killed client have ended, as they must by themselves."""
        end = time.monotonic() + 60
        while left := of_session(session):
            if time.monotonic() > end:
                self.failures.append(f"workers {left} outlive their client")
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def check_end(self, name: str, number: int, moments: list[str], ended: Ended, kept: dict[str, int]) -> None:
        due, now = self.due[name], contents(self.case)
        wrong = []
        # A repair ends with 1 if something was wrong, and with 0 if the killed one had mended all of it.
        if ended.code not in (0, due.ended.code) or "Traceback" in ended.text:
            wrong.append(f"exit code {ended.code}: {ended.text[-1500:]}")
        for file in sorted({*now, *due.after}):
            if now.get(file) != due.after.get(file):
                wrong.append(f"{file} is {'lost' if file not in now else 'other' if file in due.after else 'left'}")
        again = {file: at for file, at in entered(self.case).items() if kept.get(file, at) != at}
        wrong += [f"{file} was made again" for file in again]
        self.note(name, number, moments, wrong)
        # The machine's load changes, and with it how long the command takes.
        due.ended = replace(due.ended, seconds=0.8 * due.ended.seconds + 0.2 * ended.seconds)

    def note(self, name: str, number: int, moments: list[str], wrong: list[str]) -> None:
        for each in wrong:
            self.failures.append(f"round {number}, {name}, killed at {', '.join(moments)}: {each}")
            print(self.failures[-1], file=sys.stderr, flush=True)


def of_session(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(entry.name))
    return found


def storm(count: int, seed: int, scratch: Path, *, render: bool, only: str = "") -> dict[str, Any]:
    """Kill so many times, and return the counts and the failures."""
    every = {**SUBJECTS, **(RENDERING if render else {})}
    found = Storm(scratch, {name: subject for name, subject in every.items() if only in name}, seed)
    names, number, begun = list(found.subjects), 0, time.monotonic()
    while found.kills.total() < count:
        found.round(names[number % len(names)], number)
        number += 1
        if number % 50 == 0:
            print(f"{found.kills.total()} kills, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return {"kills": found.kills, "runs": found.runs, "failures": found.failures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--render", action="store_true", help="with real renders too")
    parser.add_argument("--only", default="", help="part of the names of the subjects")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(os.environ.get("STORM_SCRATCH", name)).resolve()
        if "STORM_SHIM" not in os.environ:
            # The temporary folder of the process that is replaced here would stay.
            scratch = Path(tempfile.mkdtemp()).resolve()
            os.environ["STORM_SCRATCH"] = str(scratch)
            begin_again(compile_shim(scratch))
        try:
            os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
            preload()
            report = storm(given.count, given.seed, scratch, render=given.render, only=given.only)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    print(json.dumps(report, indent=1))


def preload() -> None:
    """Import all that the commands import, before any process is forked."""
    import ident3d.farm.render
    import ident3d.loaders.exports.export_to
    import ident3d.loaders.exports.exporting
    import ident3d.loaders.folders.packed
    import ident3d.loaders.folders.verify
    import ident3d.loaders.layouts.importing
    import ident3d.training.images.train
    import ident3d.training.report.finish  # noqa: F401


if __name__ == "__main__":
    main()
