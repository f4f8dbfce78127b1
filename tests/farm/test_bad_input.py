"""A user's mistakes: one sentence, exit code 2, nothing written."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d.cli import main

NOT_HERE = "optix" if sys.platform == "darwin" else "metal"


def refuse(*words: str) -> str:
    """Run a command that must be refused; return its sentence."""
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert not result.stdout
    return result.stderr


@pytest.mark.bpy
@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["--n", "0"], "not 0"),
        (["--n", "-5"], "not -5"),
        ([], "--n 1000"),
        (["--n", "five"], "'five'"),
        (["--n", "8", "--scene", "3dldent"], "Did you mean '3dident'?"),
        (["--n", "8", "--split", "val"], "'val'"),
        (["--n", "8", "--quality", "drift"], "Did you mean 'draft'?"),
        (["--n", "8", "--material", "rubbber"], "Did you mean 'rubber'?"),
        (["--n", "8", "--hues", "other"], "published, wrapped"),
        (["--n", "8", "--size", "3"], "16 to 4096 pixels"),
        (["--n", "8", "--workers", "0"], "workers"),
        (["--n", "8", "--shard-size", "0"], "not 0"),
        (["--n", "8", "--seed", "-1"], "seed"),
        (["--n", "8", "--fix", "rotation"], "NAME=VALUE"),
        (["--n", "8", "--fix", "rotaton=0"], "Did you mean 'rotation'?"),
        (["--n", "8", "--fix", "x=2"], "from -1 to 1"),
        (["--n", "8", "--fix", "x=0", "--fix", "x=1"], "x is given two values"),
        (["--n", "8", "--do", "x=1"], "--fix x=1"),
        (["--n", "8", "--fix", "class=Hare"], "has no classes"),
        (["--n", "8", "--scene", "causal3dident", "--fix", "class=Hare"], "--do class=Hare"),
        (["--n", "8", "--position-range", "-1"], "position range"),
        (["--n", "8", "--render-device", "abacus"], "abacus"),
        (["--n", "8", "--render-device", NOT_HERE], f"finds no {NOT_HERE} GPU"),
        (["--n", "8", "--latents", "absent.npy"], "cannot be read"),
    ],
)
def test_render_refuses(words: list[str], fact: str, tmp_path: Path) -> None:
    assert fact in refuse("render", "--out", str(tmp_path / "data"), *words)
    assert not (tmp_path / "data" / "dataset.json").exists()


@pytest.mark.bpy
@pytest.mark.parametrize(
    ("array", "fact"),
    [
        (np.zeros((4, 9), np.float32), "shape"),
        (np.zeros(10, np.float32), "shape"),
        (np.full((4, 10), 1.5, np.float32), "[-1, 1]"),
        (np.full((4, 10), np.nan, np.float32), "[-1, 1]"),
        (np.array([["a"] * 10]), "real numbers"),
        (np.zeros((0, 10), np.float32), "not 0"),
    ],
)
def test_render_refuses_latents(array: np.ndarray, fact: str, tmp_path: Path) -> None:
    np.save(tmp_path / "latents.npy", array)
    words = ["render", "--out", str(tmp_path / "data"), "--latents", str(tmp_path / "latents.npy")]
    assert fact in refuse(*words)


@pytest.mark.bpy
def test_latents_from_a_file_keep_to_what_is_held_fixed(tmp_path: Path) -> None:
    np.save(tmp_path / "latents.npy", np.full((4, 10), 0.3, np.float32))
    words = ["render", "--out", str(tmp_path / "data"), "--latents", str(tmp_path / "latents.npy"), "--fix", "x=0.9"]
    assert "x is held fixed at 0.9" in refuse(*words)


@pytest.mark.bpy
def test_render_never_unpickles_latents(tmp_path: Path) -> None:
    np.save(tmp_path / "latents.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    words = ["render", "--out", str(tmp_path / "data"), "--latents", str(tmp_path / "latents.npy")]
    assert "cannot be read" in refuse(*words)


@pytest.mark.bpy
def test_render_refuses_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "is not a dataset folder" in refuse("render", "--n", "8", "--out", str(tmp_path))
    assert "is not a dataset folder" in refuse("render", "--n", "8", "--out", str(tmp_path), "--fresh", "--yes")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    file = tmp_path / "file"
    file.write_text("")
    assert "cannot be written" in refuse("render", "--n", "8", "--out", str(file))
    assert "cannot be written" in refuse("render", "--n", "8", "--out", "/proc/nowhere")


@pytest.mark.bpy
def test_render_names_the_settings_that_differ(dataset64: Path) -> None:
    words = ["render", "--n", "64", "--quality", "draft", "--out", str(dataset64)]
    assert "size: 32 there, 48" in refuse(*words, "--size", "48")
    assert "source.seed: 0 there, 3" in refuse(*words, "--size", "32", "--seed", "3")
    assert "shard_size: 16 there, 8" in refuse(*words, "--size", "32", "--shard-size", "8")
    assert "not shrink to 63" in refuse("render", "--n", "63", *words[3:], "--size", "32")


@pytest.mark.parametrize("command", ["verify", "info", "preview"])
def test_looking_at_no_dataset_is_refused(command: str, tmp_path: Path) -> None:
    assert "is not a dataset folder" in refuse(command, str(tmp_path))
    assert "absent" in refuse(command, str(tmp_path / "absent"))


@pytest.mark.parametrize("words", [["render", "--n", "8"], ["traverse"], ["bench", "render"], ["bench", "classes"]])
def test_without_bpy_the_sentence_says_how_to_get_it(words: list[str], tmp_path: Path) -> None:
    """In a process that cannot find bpy."""
    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'bpy' else find(name, package)\n"
        f"from ident3d.cli import main; main({words!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "pip install 'ident3d[render]'" in done.stderr


def test_fresh_asks_and_deletes_nothing_without_an_answer(dataset64: Path) -> None:
    words = ["render", "--n", "64", "--quality", "draft", "--size", "32", "--out", str(dataset64), "--fresh"]
    result = CliRunner().invoke(main, words, input="n\n")
    assert result.exit_code == 2
    assert "Nothing was deleted" in result.stderr
    assert (dataset64 / "dataset.json").exists()


def test_a_dry_run_refuses_what_the_run_would_refuse(dataset64: Path) -> None:
    words = ["render", "--n", "64", "--quality", "draft", "--size", "48", "--out", str(dataset64), "--dry-run"]
    assert "size: 32 there, 48" in refuse(*words)
