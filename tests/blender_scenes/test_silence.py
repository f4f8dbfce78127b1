"""Console noise: kept from the terminal, shown on failure."""

import subprocess
import sys
import textwrap

import pytest

from ident3d.blender_scenes.silence import BlenderError, silent
from ident3d.errors import UserError


def run(body: str) -> subprocess.CompletedProcess[str]:
    script = "import os, sys\nfrom ident3d.blender_scenes.silence import silent\n" + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_what_c_and_python_print_on_stdout_is_dropped() -> None:
    done = run("""
        import ctypes
        print("before")
        with silent():
            print("python")
            os.write(1, b"descriptor")
            ctypes.CDLL(None).puts(b"c library")
        print("after")
    """)
    assert (done.stdout, done.stderr) == ("before\nafter\n", "")


def test_what_others_log_on_stderr_meanwhile_is_kept() -> None:
    done = run("""
        with silent():
            print("a worker's log", file=sys.stderr)
    """)
    assert (done.stdout, done.stderr) == ("", "a worker's log\n")


def test_failure_carries_what_was_said_and_its_cause() -> None:
    done = run("""
        try:
            with silent():
                os.write(1, b"no memory left")
                raise KeyError("mesh")
        except RuntimeError as error:
            print(error, type(error.__cause__).__name__)
    """)
    assert "no memory left" in done.stdout
    assert "'mesh'" in done.stdout
    assert done.stdout.endswith("KeyError\n")


def test_no_descriptor_is_left_open() -> None:
    done = run("""
        def count():
            return len(os.listdir("/proc/self/fd"))
        with silent():
            pass
        before = count()
        for _ in range(50):
            with silent():
                print("x")
        print(count() - before)
    """)
    assert done.stdout == "0\n"


def test_nested_failure_is_told_once() -> None:
    with pytest.raises(BlenderError) as caught, silent():
        raise ValueError("broken")
    assert str(caught.value).count("Blender said") == 1


def test_a_users_mistake_passes_unchanged() -> None:
    with pytest.raises(UserError, match=r"^Take another size\.$"), silent():
        raise UserError("Take another size.")
