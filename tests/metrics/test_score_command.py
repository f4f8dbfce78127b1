"""`ident3d score` and `ident3d bench metrics` as a user meets them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ident3d import metrics
from ident3d.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, size=(300, 3))
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "h.npy", z[:, ::-1] + 0.1 * rng.normal(size=(300, 3)))
    np.save(tmp_path / "c.npy", np.where(z[:, 0] > 0, "teapot", "hare"))
    return tmp_path


def score(folder: Path, *words: str) -> Result:
    files = ["--latents", str(folder / "z.npy"), "--codes", str(folder / "h.npy")]
    return CliRunner().invoke(main, ["score", *files, *words])


def test_table_json_and_picture(folder: Path) -> None:
    words = ["--class-file", str(folder / "c.npy"), "--names", "x,y,hue", "--bootstrap", "50", "--seed", "3"]
    shown = score(folder, *words, "--plot", str(folder / "m.png"))
    assert shown.exit_code == 0, shown.output
    assert (folder / "m.png").stat().st_size > 5000
    as_json = score(folder, *words, "--json")
    expected = metrics.score(
        np.load(folder / "z.npy"),
        np.load(folder / "h.npy"),
        classes=np.load(folder / "c.npy"),
        latent_names=["x", "y", "hue"],
        resamples=50,
        seed=3,
    )
    assert shown.output.rstrip("\n") == expected.table()
    found, wanted = json.loads(as_json.output), expected.as_dict()
    del found["cpu_seconds"], wanted["cpu_seconds"]
    assert found == wanted


def test_columns_and_blocks(folder: Path) -> None:
    words = ["--metrics", "periodic_r2, block_r2,mig", "--periodic", "2=2", "--discrete", "1", "--json"]
    done = score(folder, *words, "--block", "content=0,1", "--block", "style=2")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["settings"]["kinds"] == ["continuous", "discrete", 2.0]
    assert found["scores"]["block_r2"]["blocks"] == ["content", "style"]
    assert set(found["scores"]) == {"periodic_r2", "block_r2", "mig"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--metrics", "mmc_pearson"], "Did you mean 'mcc_pearson'"),
        (["--metrics", "mcc"], "'mcc_pearson' or 'mcc_spearman' or 'mcc_kernel'"),
        (["--metrics", "class_accuracy"], "no classes were given"),
        (["--periodic", "2"], "--periodic takes COLUMN=PERIOD"),
        (["--periodic", "2=wide"], "'2=wide'"),
        (["--periodic", "7=2"], "There is no latent 7"),
        (["--periodic", "2=-1"], "positive period"),
        (["--discrete", "a"], "--discrete takes whole numbers"),
        (["--block", "content=0,9"], "between 0 and 2"),
        (["--names", "x,y"], "each of the 3 latents"),
        (["--plot", "m.gif"], ".png, .pdf, .svg"),
        (["--bootstrap", "1"], "at least 2 resamples"),
    ],
)
def test_mistakes_end_with_a_sentence(folder: Path, words: list[str], sentence: str) -> None:
    done = score(folder, *words)
    assert done.exit_code == 2
    assert sentence in done.output
    assert done.output.startswith("Error: ")
    assert done.output.count("\n") == 1


@pytest.mark.parametrize("kind", ["objects", "text", "archive", "broken archive", "cut", "empty"])
def test_files_that_are_no_arrays(folder: Path, kind: str) -> None:
    file = folder / "h.npy"
    whole = file.read_bytes()
    if kind == "objects":
        np.save(file, np.array([{}, []], dtype=object), allow_pickle=True)
    elif kind == "archive":
        np.savez(folder / "h.npz", h=np.zeros((300, 3)))
        (folder / "h.npz").replace(file)
    else:
        file.write_bytes({"text": b"0.1 0.2", "broken archive": b"PK\x03\x04", "cut": whole[:500], "empty": b""}[kind])
    done = score(folder)
    assert done.exit_code == 2
    assert re.search(r"h\.npy (cannot be read|holds several arrays)", done.output)


def test_bench_measures_every_figure_against_its_reference() -> None:
    done = CliRunner().invoke(main, ["bench", "metrics", "--shrink", "100", "--json"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert [figure["limit"] for figure in figures] == [0.2, 3, None, 10, None, 60, 60]
    for figure in figures:
        assert 0 < figure["cpu_seconds"] < (figure["limit"] or 60), figure
        assert figure["ratio"] == pytest.approx(figure["reference_cpu_seconds"] / figure["cpu_seconds"])
    bootstrap = figures[1]
    assert bootstrap["ratio"] > 10
