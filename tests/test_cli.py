"""The command line as a user meets it: help, version, mistakes."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import ident3d
from ident3d.cli import SECTIONS, main


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ident3d", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_help_is_grouped_and_quick() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    for section, names in SECTIONS.items():
        assert (f"{section}:" in done.stdout) == bool(names)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 0.4


def test_every_command_explains_itself() -> None:
    for name in [name for names in SECTIONS.values() for name in names]:
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0, result.output
        assert "Usage:" in result.output


def test_version() -> None:
    assert run("--version").stdout == f"ident3d, version {ident3d.__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["docter"], "Error: There is no command 'docter'; choose one of "),
        (["doctor", "--rooot"], "Error: No such option"),
        (["doctor", "extra"], "Error: Got unexpected extra argument"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(words: list[str], sentence: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_without_arguments_help_is_shown() -> None:
    assert "Usage:" in run().stdout


def test_completion_script_is_offered() -> None:
    assert "ident3d" in run(_IDENT3D_COMPLETE="bash_source", _PYTHON_M_IDENT3D_COMPLETE="bash_source").stdout


def test_doctor_as_json_and_its_exit_code(tmp_path: Path) -> None:
    done = run("doctor", "--json", "--root", str(tmp_path))
    report = json.loads(done.stdout)
    expected = (0 if report["can_render"] else 4) + (0 if report["can_train"] else 8)
    assert done.returncode == expected
    assert {"Python", "torch devices", "bpy (rendering)", "FAISS (pairs)", "cores", "memory", "free disk"} <= {
        finding["what"] for finding in report["findings"]
    }
