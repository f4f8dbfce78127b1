"""Trainings on rendered views: the folder's pair rule and blocks are the usual ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import make_dataset

import ident3d
from ident3d import Environment, TrainSettings, Views, train
from ident3d.cli import main
from ident3d.training.images.run import open_run
from ident3d.training.report.report import private_latents, write_report

BASE = TrainSettings(encoder="tiny:convolution", batch=16, steps=4, lr=1e-3, dtype="fp32", bound=3.0)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("views")
    make_dataset(top / "train", 96, size=16, shard_size=32, views=Views(2, private=("position",)))
    make_dataset(top / "test", 80, size=16, shard_size=32, split="test")
    return top


def test_the_folders_rule_and_blocks_are_the_usual_ones(sets: Path, tmp_path: Path) -> None:
    given = {"workers": 0, "show_progress": False, "device": "cpu"}
    run = train(sets / "train", BASE, out=tmp_path / "run", **given)
    assert run.settings.rule == "view"
    assert json.loads((tmp_path / "run/run.json").read_text())["settings"]["rule"] == "view"
    assert open_run(tmp_path / "run").settings == run.settings
    longer = train(sets / "train", replace(BASE, steps=6), out=tmp_path / "run", resume=True, **given)
    assert longer.settings.rule == "view"
    # A plain test set is scored by what the run's own images share.
    how = {"encoder": "tiny:convolution", "device": "cpu", "show_progress": False}
    found = ident3d.evaluate(run.path, sets / "test", metrics="block_r2", **how)
    score = found.report.scores["block_r2"]
    assert score.blocks == ("shared", "private")
    assert np.isnan(score.per_latent).sum() == 0
    assert "private" in found.table()
    assert "rule view" in write_report(run.path, found).read_text()
    assert found.count == 80
    # Of views one of each z is scored, so that the held-out half has no twins of the fitted one.
    found = ident3d.evaluate(run.path, sets / "train", allow_same=True, metrics="block_r2", **how)
    assert (found.count, len(found.codes)) == (48, 96)
    assert "48 of 96" in found.table()
    nearest = train(sets / "train", replace(BASE, sigma=0.3), out=tmp_path / "near", **given)
    assert private_latents(run) == ("x", "y", "z")
    assert private_latents(nearest) == ()
    assert nearest.settings.rule == "nearest"
    assert "rule" not in json.loads((tmp_path / "near/run.json").read_text())["settings"]


def test_no_start_of_a_box_is_found_from_views(sets: Path, tmp_path: Path) -> None:
    """Their private latents, which are drawn anew, would narrow the best box, and no code should hold them."""
    options = ["--encoder", "tiny:convolution", "--batch", "16", "--steps", "2", "--workers", "0", "--device", "cpu"]
    done = CliRunner().invoke(main, ["train", str(sets / "train"), "--out", str(tmp_path / "run"), *options])
    assert done.exit_code == 0, done.output
    assert "finds no start for views" in done.stderr
    run = json.loads((tmp_path / "run/run.json").read_text())
    assert "best_box" not in run["facts"]
    assert run["settings"]["bound"] is None


def test_known_codes_have_known_block_scores(sets: Path, tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "many", 2400, size=4, shard_size=256, views=Views(2, private=("position",)))
    z = ident3d.ImageDataset(folder).all_latents()[0]
    words = ["score", "--latents", str(folder / "all_latents.npy"), "--metrics", "block_r2"]
    for kept, due in (((3, 10), (1, 0)), ((0, 3), (0, 1)), ((0, 10), (1, 1))):
        codes = z[:, slice(*kept)].astype(np.float64)
        np.save(tmp_path / "h.npy", codes @ np.random.default_rng(0).normal(size=(codes.shape[1],) * 2))
        shown = CliRunner().invoke(main, [*words, "--codes", str(tmp_path / "h.npy"), "--json"])
        assert shown.exit_code == 0, shown.output
        found = json.loads(shown.stdout)["scores"]["block_r2"]
        assert found["blocks"] == ["shared", "private"]
        np.testing.assert_allclose(np.ravel(found["matrix"]), due, atol=0.1)
    # What is random but for the instance holds nothing of other instances; a twin in the other half would help.
    lost = np.repeat(np.random.default_rng(1).normal(size=(len(z) // 2, 7)), 2, axis=0)
    np.save(tmp_path / "lost.npy", lost)
    shown = CliRunner().invoke(main, [*words, "--codes", str(tmp_path / "lost.npy"), "--json"])
    np.testing.assert_allclose(np.ravel(json.loads(shown.stdout)["scores"]["block_r2"]["matrix"]), 0, atol=0.1)
    assert "1,200 of 2,400" in shown.stderr
    # Blocks that are given go before those of the folder.
    shown = CliRunner().invoke(main, [*words, "--codes", str(tmp_path / "h.npy"), "--block", "own=1,2", "--json"])
    assert json.loads(shown.stdout)["scores"]["block_r2"]["blocks"] == ["own"]


def test_pairs_are_kept_within_an_environment_or_taken_across(sets: Path, tmp_path: Path) -> None:
    both = (Environment("plain"), Environment("right", {"y": 0.5}))
    folder = make_dataset(tmp_path / "two", 60, size=16, shard_size=32, environments=both)
    given = {"workers": 0, "show_progress": False, "device": "cpu"}
    label = ident3d.ImageDataset(folder).column("environment")
    for way in ("within", "across"):
        run = train(folder, replace(BASE, environments=way), out=tmp_path / way, **given)
        assert open_run(run.path).settings.environments == way
        assert run.pairs is not None
        drawn = run.pairs.sampler.pairs(np.arange(200))
        assert ((label[drawn.anchor] == label[drawn.positive]) == (way == "within")).all()
    plain = train(folder, BASE, out=tmp_path / "plain", **given)
    assert "environments" not in json.loads((plain.path / "run.json").read_text())["settings"]
    for words, said in (
        (["--environments", "between"], "'between'"),
        (["--environments", "within", "--rule", "time"], "--environments"),
        (["--environments", "within", "--cond", "augment"], "--environments"),
        (["--environments", "within", "--supervised"], "--environments"),
    ):
        shown = CliRunner().invoke(main, ["train", str(folder), *words, "--batch", "8", "--out", str(tmp_path / "no")])
        assert shown.exit_code == 2
        assert said in shown.stderr
    shown = CliRunner().invoke(main, ["train", str(sets / "train"), "--environments", "within", "--batch", "8"])
    assert shown.exit_code == 2
    assert "no environments" in shown.stderr
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("words", [["--cond", "normal"], ["--sigma", "0.1"], ["--search", "exact"]])
def test_who_asks_for_nearest_pairs_gets_them_at_the_usual_width_too(
    sets: Path, tmp_path: Path, words: list[str]
) -> None:
    shown = CliRunner().invoke(main, ["pairs", str(sets / "train"), *words, "--out", str(tmp_path / "a.png"), "--json"])
    assert shown.exit_code == 0, shown.output
    assert "rule" not in json.loads(shown.stdout)
    usual = CliRunner().invoke(main, ["pairs", str(sets / "train"), "--out", str(tmp_path / "b.png"), "--json"])
    assert json.loads(usual.stdout)["rule"] == "view"


def test_a_training_with_the_usual_width_given_is_of_nearest_pairs(sets: Path, tmp_path: Path) -> None:
    small = ["--encoder", "512x1", "--batch", "16", "--steps", "2", "--bound", "3", "--workers", "0"]
    for out, words, rule in (("usual", [], "view"), ("asked", ["--cond", "normal"], None)):
        shown = CliRunner().invoke(main, ["train", str(sets / "train"), *small, *words, "--out", str(tmp_path / out)])
        assert shown.exit_code == 0, shown.output
        assert json.loads((tmp_path / out / "run.json").read_text())["settings"].get("rule") == rule
