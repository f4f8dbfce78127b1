"""Atomic writes, with real processes that die."""

import subprocess
import sys
from pathlib import Path

import pytest

from ident3d.loaders.format.files import TEMPORARY, atomic_file, remove_partial_files, write_atomically


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"old")
    with pytest.raises(TypeError):
        write_atomically(target, "text is not bytes")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
def test_a_full_disk_is_said_of_the_file_that_was_written(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with (
        Path("/dev/full").open("wb", buffering=0) as full,
        pytest.raises(OSError, match="No space left") as caught,
        atomic_file(target),
    ):
        full.write(b"x")
    assert caught.value.filename == str(target)
    assert not list(tmp_path.iterdir())


def test_a_killed_writer_leaves_the_old_file_and_a_partial_one_that_is_cleared(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    code = f"""
import os
from pathlib import Path
import ident3d.loaders.format.files as files
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
files.write_atomically(Path({str(tmp_path / "file")!r}), b"new")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [file.name[: len(TEMPORARY)] for file in tmp_path.iterdir() if file.name != "file"] == [TEMPORARY]
    remove_partial_files(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
