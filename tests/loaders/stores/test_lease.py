"""The lease on a folder, with real processes that are killed, stopped and woken, and that contend for it."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ident3d.errors import UserError
from ident3d.loaders.format.files import TEMPORARY
from ident3d.loaders.stores.lease import EMPTY_SECONDS, LEASE_PREFIX, FolderClaims, lease
from ident3d.loaders.stores.owners import start_time, this_process

# Holds the lease, and tells of it; then, at each line that it reads, whether it still does.
HOLD = """
import sys
from pathlib import Path
from ident3d.errors import UserError
from ident3d.loaders.stores.lease import lease
with lease(Path(sys.argv[1]), beat_seconds=0.1, lapse_seconds=1.0) as held:
    print("held", flush=True)
    for _ in sys.stdin:
        try:
            held.check()
            print("ours", flush=True)
        except UserError as error:
            print(error, flush=True)
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the folder's lease."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert said(process) == "held"
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def asked(process: subprocess.Popen[str]) -> str:
    """What the process says when it is asked whether it holds the lease."""
    assert process.stdin
    process.stdin.write("?\n")
    process.stdin.flush()
    return said(process)


def test_a_second_client_is_refused_while_the_first_lives_and_takes_over_at_once_when_it_is_killed(
    tmp_path: Path,
) -> None:
    with holder(tmp_path) as owner:
        with pytest.raises(UserError, match=rf"is being written by process {owner.pid} on "), lease(tmp_path):
            pass
        assert asked(owner) == "ours"
        owner.kill()
        while start_time(owner.pid):
            time.sleep(0.01)
        with lease(tmp_path) as held:  # though the last sign of life is not a second old, and the dead is not buried
            held.check()
    assert not list(tmp_path.iterdir())


def test_a_lease_is_released_with_its_block_and_is_not_given_twice_to_one_process(tmp_path: Path) -> None:
    with lease(tmp_path), pytest.raises(UserError, match=f"process {os.getpid()} on "), lease(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyError), lease(tmp_path):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_stopped_owner_is_refused_for_then_lapses_and_notices_when_it_wakes(tmp_path: Path) -> None:
    with holder(tmp_path) as owner:
        owner.send_signal(signal.SIGSTOP)
        with pytest.raises(UserError, match=f"process {owner.pid} on "), lease(tmp_path, lapse_seconds=30):
            pass
        time.sleep(0.5)
        with lease(tmp_path, lapse_seconds=0.4) as held:
            owner.send_signal(signal.SIGCONT)
            answer = asked(owner)
            assert f"process {os.getpid()} on " in answer
            assert "stops here" in answer
            time.sleep(0.3)  # a few beats of the one that lost it, which change nothing
            held.check()
        assert "another process took over" in asked(owner)
    assert not list(tmp_path.iterdir())


def test_a_living_owner_on_another_host_is_known_by_its_beats_alone(tmp_path: Path) -> None:
    claim = tmp_path / f"{LEASE_PREFIX}7"
    claim.write_text(json.dumps(this_process() | {"host": "elsewhere", "id": "0"}))
    with pytest.raises(UserError, match=f"process {os.getpid()} on elsewhere"), lease(tmp_path):
        pass
    an_hour_ago = time.time() - 3600
    os.utime(claim, (an_hour_ago, an_hour_ago))
    with lease(tmp_path) as held:
        held.check()
        assert not claim.exists()


def test_a_process_of_another_start_or_number_space_is_not_taken_for_the_owner(tmp_path: Path) -> None:
    claim = tmp_path / f"{LEASE_PREFIX}1"
    claim.write_text(json.dumps(this_process() | {"started": "1"}))  # the number was used again
    with lease(tmp_path) as held:
        held.check()
    claim.write_text(json.dumps(this_process() | {"started": "1", "system": ["another boot"]}))
    with pytest.raises(UserError, match="is being written by"), lease(tmp_path):
        pass


def test_another_users_process_that_this_host_hides_counts_as_living(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on hosts whose /proc is mounted with hidepid=2: there is no /proc/PID, but a signal to it is not permitted."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    (tmp_path / f"{LEASE_PREFIX}1").write_text(json.dumps(this_process() | {"pid": gone.pid}))

    def refuse(pid: int, number: int) -> None:
        assert (pid, number) == (gone.pid, 0)
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)
        with pytest.raises(UserError, match=f"process {gone.pid} on "), lease(tmp_path):
            pass
    with lease(tmp_path) as held:
        held.check()


def test_a_claim_of_another_survives_an_attempt_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{LEASE_PREFIX}1").write_bytes(b"another's")

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", fail)
        with pytest.raises(OSError, match="Too many"):
            FolderClaims(tmp_path).create(1, b"ours")
    assert (tmp_path / f"{LEASE_PREFIX}1").read_bytes() == b"another's"


@pytest.mark.parametrize(
    "content",
    [b"[1]", b'{"pid": "1\\n2", "host": 3}', b"\xff", b'{"host": "a\\nb", "pid": 1}', b"[" * 100_000],
)
def test_a_claim_that_cannot_be_read_counts_as_living_until_it_lapses(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{LEASE_PREFIX}1").write_bytes(content)
    with pytest.raises(UserError, match="is being written by another process"), lease(tmp_path):
        pass
    with lease(tmp_path, lapse_seconds=0) as held:
        held.check()


def test_an_empty_claim_is_of_a_process_that_died_while_it_wrote_it(tmp_path: Path) -> None:
    """It is waited for a few seconds, as its owner may be writing it just now, and then taken over."""
    claim = tmp_path / f"{LEASE_PREFIX}1"
    claim.write_bytes(b"")
    now = time.time()
    os.utime(claim, (now, now - EMPTY_SECONDS + 1))
    with lease(tmp_path) as held:
        assert time.time() > now + 0.5
        held.check()
        assert not claim.exists()


def test_the_claim_is_touched_while_it_is_held(tmp_path: Path) -> None:
    with lease(tmp_path, beat_seconds=0.02):
        claim = tmp_path / f"{LEASE_PREFIX}1"
        first = claim.stat().st_mtime_ns
        limit = time.monotonic() + 10
        while claim.stat().st_mtime_ns == first:
            assert time.monotonic() < limit
            time.sleep(0.01)


def test_many_processes_take_turns(tmp_path: Path) -> None:
    """Some are killed while they hold it; never do two hold it at once."""
    code = f"""
import os, random, sys, time
from pathlib import Path
from ident3d.errors import UserError
from ident3d.loaders.stores.lease import lease
folder, done = Path({str(tmp_path)!r}), 0
mortal = sys.argv[1] == "mortal"
while done < 20:
    try:
        with lease(folder) as held:
            inside = os.open(folder / "inside", os.O_CREAT | os.O_EXCL)
            number = int((folder / "count").read_text())
            time.sleep(0.001)
            held.check()
            (folder / "count").write_text(str(number + 1))
            done += 1
            (folder / "inside").unlink()
            if mortal and done == 10:
                os.kill(os.getpid(), 9)
    except UserError:
        time.sleep(random.uniform(0, 0.002))
"""
    (tmp_path / "count").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", code, kind]) for kind in ("mortal", "immortal", "mortal")]
    try:
        assert [process.wait(timeout=60) for process in processes] == [-9, 0, -9]
    finally:
        for process in processes:
            process.kill()
    assert (tmp_path / "count").read_text() == "40"
    with lease(tmp_path):
        pass
    assert {file.name for file in tmp_path.iterdir() if not file.name.startswith(TEMPORARY)} == {"count"}
