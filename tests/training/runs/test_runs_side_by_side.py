"""Runs beside one another: listed, compared over seeds, as CSV, JSON and a picture; several seeds in one command."""

import csv
import json
import shutil
from pathlib import Path
from statistics import mean, stdev

import pytest
from click.testing import CliRunner, Result

import ident3d
from ident3d.cli import main
from ident3d.training.images.run import default_name, old_name, open_run
from ident3d.training.mixing.scores import evaluate_mixing
from ident3d.training.mixing.settings import MixingSettings

TINY = ["--encoder", "tiny:plain", "--batch", "32", "--steps", "2", "--workers", "0", "--device", "cpu", "--dtype",
        "fp32"]  # fmt: skip


def command(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs on mixed latents: two seeds in a box, one unbounded, one that is not scored."""
    folder = tmp_path_factory.mktemp("runs")
    for name, given in {"a": {}, "b": {"seed": 1}, "deep/c": {"space": "unbounded"}, "d": {"tau": 2.0}}.items():
        settings = MixingSettings(**{"dim": 3, "encoder": "16x1", "batch": 64, "steps": 2, **given})
        run = ident3d.mixing(settings, out=folder / name, device="cpu", show_progress=False)
        if name != "d":
            evaluate_mixing(run)
    return folder


def test_runs_are_listed(mixed: Path, root: Path, tmp_path: Path) -> None:
    found = ident3d.runs(str(mixed))
    assert [run.path.name for run in found.runs] == ["a", "b", "d", "c"]
    assert [run.settings["seed"] for run in found.runs] == [0, 1, 0, 0]
    assert all(0 <= run.scores["R²"] <= 1 for run in found.runs if run.path.name != "d")
    lines = {line.split()[0]: line for line in found.table().splitlines()}
    for fact in ("delta", "16x1", "normal", "box", "2"):
        assert fact in lines["b"].split()
    assert lines["d"].split()[-2:] == ["–", "–"]
    # By default the data root; a folder that cannot be read hides no other.
    broken = tmp_path / "root"
    shutil.copytree(root / "run", broken / "runs" / "good")
    (broken / "runs/bad").mkdir()
    (broken / "runs/bad/run.json").write_text('{"format": "ident3d-run", "format_version": 1}')
    done = command("runs", "--root", broken, "--json")
    content = json.loads(done.stdout)
    assert [run["data"] for run in content["runs"]] == ["train"]
    assert str(broken / "runs/bad/run.json") in content["unreadable"][0]
    assert "KeyError" not in content["unreadable"][0]
    shutil.rmtree(broken / "runs/good")
    assert command("runs", broken).exit_code == 1
    assert command("runs", tmp_path / "none").exit_code == 2


def test_runs_are_compared_over_seeds(mixed: Path, tmp_path: Path) -> None:
    found = ident3d.compare([str(mixed)])
    box, unscored, unbounded = found.groups
    assert (box.seeds, unscored.seeds, unbounded.seeds) == ((0, 1), (0,), (0,))
    assert found.differing["space"] == ("box", "box", "unbounded")
    assert found.differing["tau"] == (1.0, 2.0, 1.0)
    assert found.differing.keys() == {"space", "tau"}
    scores = [json.loads((mixed / name / "evaluation.json").read_text())["figures"]["R²"] for name in "ab"]
    assert box.shown("R²") == f"{mean(scores):.3f} ± {stdev(scores):.3f}"
    assert unscored.shown("R²") == "–"
    assert str(mixed / "d") in found.table().partition("Not scored")[2]
    alike = ident3d.compare([mixed / "a", mixed / "b", mixed / "a"])
    assert (len(alike.groups), alike.differing, alike.groups[0].seeds) == (1, {}, (0, 1))
    assert "seed alone" in alike.table()
    # A copy is a run, but no further seed.
    shutil.copytree(mixed / "a", tmp_path / "copy")
    copied = ident3d.compare([mixed / "a", mixed / "b", tmp_path / "copy"])
    assert (copied.groups[0].seeds, copied.groups[0].shown("R²")) == ((0, 0, 1), box.shown("R²"))
    assert "seed alone" not in ident3d.compare([mixed / "a", tmp_path / "copy"]).table()


def test_compare_writes_csv_json_and_a_picture(mixed: Path, tmp_path: Path) -> None:
    files = ["--csv", tmp_path / "scores.csv", "--plot", tmp_path / "scores.svg"]
    done = command("compare", mixed, "--metrics", "all", *files, "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    rows = list(csv.DictReader((tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["run"] for row in rows] == [str(mixed / name) for name in ("a", "b", "d", "deep/c")]
    assert {row["space"] for row in rows} == {"box", "unbounded"}
    assert float(rows[0]["identity R²"]) == content["groups"][0]["runs"][0]["scores"]["identity R²"]
    assert (tmp_path / "scores.svg").read_text().count("<svg") == 1
    for words, fact in {
        ("--metrics", "mccc"): "MCC",
        ("--plot", str(tmp_path / "scores.gif")): ".png",
        ("--csv", str(tmp_path / "no" / "scores.csv")): str(tmp_path / "no"),
        ("--plot", str(tmp_path / "no" / "scores.svg")): str(tmp_path / "no"),
    }.items():
        refused = command("compare", mixed, *words)
        assert refused.exit_code == 2
        assert fact in refused.stderr
    assert "no runs in" in command("compare", tmp_path).stderr


def test_several_seeds_are_trained_and_compared(root: Path, tmp_path: Path) -> None:
    words = ["train", root / "train", "--root", root, "--out", tmp_path / "runs", *TINY, "--seeds", "0,2", "--json"]
    done = command(*words)
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert [run["run"] for run in content["runs"]] == [str(tmp_path / "runs" / name) for name in ("seed0", "seed2")]
    (group,) = content["comparison"]["groups"]
    assert group["seeds"] == [0, 2]
    assert group["scores"]["MCC"]["spread"] > 0
    assert open_run(tmp_path / "runs/seed2").settings.seed == 2
    # Without --resume nothing is trained over; with it, what was there goes on and what was not is begun.
    shutil.rmtree(tmp_path / "runs/seed2")
    assert "--resume" in command(*words).stderr
    assert not (tmp_path / "runs/seed2").exists()
    again = command(*words, "--resume")
    assert json.loads(again.stdout)["comparison"]["groups"][0]["seeds"] == [0, 2]
    for bad, fact in {("--seeds", "1,1"): "twice", ("--seeds", "1", "--seed", "2"): "--seed or --seeds"}.items():
        refused = command("train", root / "train", "--out", tmp_path / "other", *TINY, *bad)
        assert refused.exit_code == 2
        assert fact in refused.stderr


def test_a_runs_name_says_what_it_is(root: Path, tmp_path: Path) -> None:
    done = command("train", root / "train", "--root", tmp_path, *TINY, "--seed", "3", "--json")
    path = Path(json.loads(done.stdout)["run"])
    assert path.name.startswith("train-normal-delta-box-tiny.plain-seed3-")
    # A run that version 0.1 began under its own kind of name is found under it.
    run = open_run(path)
    assert path.name == default_name(run.settings, root / "train")
    path.rename(path.with_name(old_name(run.settings, root / "train")))
    assert "holds a run already" in command("train", root / "train", "--root", tmp_path, *TINY, "--seed", "3").stderr
