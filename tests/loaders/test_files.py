"""Atomic writes and the folder's lock, with real processes that die."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ident3d.errors import UserError
from ident3d.loaders.files import TEMPORARY, lock, remove_partial_files, write_atomically

HOLD = """
import sys, time
from pathlib import Path
from ident3d.loaders.files import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"old")
    with pytest.raises(TypeError):
        write_atomically(target, "text is not bytes")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_killed_writer_leaves_the_old_file_and_a_partial_one_that_is_cleared(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    code = f"""
import os
from pathlib import Path
import ident3d.loaders.files as files
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
files.write_atomically(Path({str(tmp_path / "file")!r}), b"new")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [file.name[: len(TEMPORARY)] for file in tmp_path.iterdir() if file.name != "file"] == [TEMPORARY]
    remove_partial_files(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_lock_is_held_until_its_process_dies_however_it_dies(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"is being written by process {holder.pid} on "), lock(tmp_path):
            pass
        holder.kill()
    with lock(tmp_path), pytest.raises(UserError), lock(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_many_processes_take_turns(tmp_path: Path) -> None:
    """The lock's file is removed by each holder; nobody may lock a file that is gone."""
    code = f"""
import time
from pathlib import Path
from ident3d.errors import UserError
from ident3d.loaders.files import lock
folder, done = Path({str(tmp_path)!r}), 0
while done < 20:
    try:
        with lock(folder):
            number = int((folder / "count").read_text())
            time.sleep(0.0005)
            (folder / "count").write_text(str(number + 1))
            done += 1
    except UserError:
        time.sleep(0.0005)
"""
    (tmp_path / "count").write_text("0")
    start = time.monotonic()
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "60"
    assert time.monotonic() - start < 60
