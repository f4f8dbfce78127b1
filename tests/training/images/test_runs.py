"""From the command line: train; which folders, options and run folders are taken and refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from synthetic import make_dataset

from ident3d.cli import main
from ident3d.latents.factors import Factors
from ident3d.latents.worlds import World
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.evaluate import evaluate
from ident3d.training.images.run import open_run
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train

TINY = ["--encoder", "tiny:plain", "--batch", "32", "--steps", "3", "--workers", "0", "--device", "cpu"]


def ident3d(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_train_scores_and_reports(root: Path, tmp_path: Path) -> None:
    done = ident3d("train", "--root", root, "--out", tmp_path / "run", *TINY, "--json")
    assert done.exit_code == 0, done.output
    assert f"Training on {root / 'train'}" in done.stderr
    assert "The box starts" in done.stderr
    found = json.loads(done.stdout)
    assert found["evaluation"]["data"] == str(root / "test")
    assert found["evaluation"]["label"] is None
    assert 0 < found["evaluation"]["scores"]["mcc_pearson"]["score"] <= 1
    recorded = json.loads((tmp_path / "run/run.json").read_text())
    assert recorded["settings"]["loss"] == "delta"
    assert recorded["settings"]["negatives"] == "others"
    assert recorded["settings"]["bound"] is None
    assert recorded["settings"]["space_lr"] == 20 * recorded["settings"]["lr"]
    assert recorded["facts"]["bound"] == recorded["facts"]["best_box"]["start"]
    assert recorded["settings"]["size"] == 16
    assert recorded["facts"]["versions"]["torch"]
    assert recorded["facts"]["host"]
    again = ident3d(
        "train", "--root", root, "--out", tmp_path / "run", *TINY, "--resume", "--metrics", "mcc_spearman,sap"
    )
    assert again.exit_code == 0, again.output
    assert "affine_residual" not in again.stdout
    written = json.loads((tmp_path / "run/evaluation.json").read_text())
    assert set(written["scores"]) == {"mcc_spearman", "sap", "linear_r2_held_out", "mcc_pearson"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--space", "sphere", "--loss", "delta"], "--space box or unbounded"),
        (["--space", "sphere", "--model-p", "2"], "--model-p"),
        (["--space", "ball"], "box, sphere, unbounded"),
        (["--space", "spher"], "'sphere'?"),
        (["--cond", "vmf"], "normal, laplace, gennorm, augment"),
        (["--cond", "normall"], "'normal'?"),
        (["--cond", "gennorm", "--cond-p", "0"], "--cond-p is a number above 0, not 0."),
        (["--model-p", "inf"], "--model-p is a number of at least 1, not inf."),
        (["--loss", "au", "--alpha", "2"], "--alpha is a share from 0 to 1, not 2."),
        (["--alpha", "0.1"], "--alpha is for --loss au"),
        (["--negatives", "other"], "others"),
        (["--loss", "au", "--negatives", "others"], "--negatives is for --loss infonce, delta"),
        (["--loss", "aninfonce", "--tau", "0.3"], "--tau is for --loss infonce, delta, simclr"),
        (["--loss", "simclr", "--space", "box"], "--loss simclr"),
        (["--supervised", "--loss", "delta"], "--loss mse and --supervised"),
        (["--cond-p", "4"], "--cond-p is the power of --cond gennorm"),
        (["--loss", "simcrl"], "'simclr'?"),
        (["--encoder", "resnet19"], "'resnet18'?"),
        (["--encoder", "tiny:plan"], "'plain'?"),
        (["--size", "17"], "--size"),
        (["--size", "7", "--encoder", "resnet18"], "resnet18 takes images of at least 8"),
        (["--batch", "81"], "80 images"),
        (["--batch", "1"], "--batch is at least 2"),
        (["--lr", "0"], "--lr is a number above 0"),
        (["--steps", "0"], "--steps is at least 1"),
        (["--log-every", "0"], "at least 1 step"),
        (["--workers", "-1"], "A loader has 0 or more workers"),
        (["--seed", "-1"], "--seed"),
        (["--device", "gpu"], "There is no device 'gpu'"),
        (["--device", "cuda"], "torch finds no CUDA GPU here"),
        (["--dtype", "fp16"], "fp16 needs a GPU"),
        (["--dtype", "bf16"], "bf16 needs images of at least 32 pixels"),
        (["--sync-bn"], "--sync-bn is for several ranks on CUDA"),
        (["--supervised", "--space", "box"], "--space unbounded, not box"),
        (["--supervised", "--dim", "3"], "--dim cannot be 3"),
        (["--cond", "augment", "--augment", "crop"], "augmentation 'crop'"),
        (["--schedule", "linear"], "schedule 'linear'"),
        (["--only", "huess"], "Did you mean 'hues'?"),
        (["--same-class"], "These images have no classes"),
        (["--metrics", "mcc_pearsn"], "'mcc_pearson'"),
        (["--bound", "-1"], "--bound is a number above 0"),
        (["--space", "sphere", "--bound", "3"], "--bound is for a box"),
        (["--space", "bx", "--bound", "3"], "'bx'"),
        (["--supervised", "--bound", "3"], "--supervised has none"),
        (["--space", "box", "--radius", "3"], "--radius is for a sphere"),
        (["--radius", "3"], "--radius is for a sphere"),
        (["--cond", "augment", "--bound", "3"], "--bound is for a box"),
        (["--loss", "simclr", "--bound", "3"], "--bound is for a box"),
        (["--space", "sphere", "--space-lr", "0.1"], "--learnable"),
        (["--space", "unbounded", "--fixed"], "--fixed"),
        (["--fixed", "--space-lr", "0.1"], "no --space-lr"),
        (["--supervised", "--negatives", "batch"], "not for --supervised"),
        (["--loss", "au", "--negatives", "batch"], "not for --loss au"),
        (["--cond", "augment", "--negatives", "batch"], "not for --loss simclr"),
    ],
)
def test_what_train_refuses(root: Path, tmp_path: Path, words: list[str], sentence: str) -> None:
    done = ident3d("train", root / "train", "--out", tmp_path / "run", *TINY, *words)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert sentence in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_with_an_option_that_had_no_effect(root: Path, tmp_path: Path) -> None:
    """Earlier versions took and recorded them."""
    settings = TrainSettings(encoder="tiny:plain", batch=32, steps=3, space="sphere", bound=3.0)
    train(root / "train", settings, out=tmp_path / "run", workers=0, device="cpu", show_progress=False)
    words = ["train", root / "train", "--out", tmp_path / "run", *TINY, "--space", "sphere", "--bound", "3"]
    assert ident3d(*words, "--resume").exit_code == 0
    assert ident3d(*words).exit_code == 2


@pytest.mark.parametrize("given", [{"space": "sphere", "bound": -1.0}, {"space": "box", "radius": 0.0}])
def test_a_number_that_the_space_does_not_have_is_not_looked_at_as_in_version_01(given: dict[str, Any]) -> None:
    complete = with_defaults(TrainSettings(batch=8, **given), World(), 64, 100)
    assert given.items() <= complete.as_dict().items()


@pytest.mark.parametrize(("loss", "space"), [(None, "sphere"), ("aninfonce", "sphere"), ("au", "box")])
def test_where_codes_of_augmented_views_live(loss: str | None, space: str) -> None:
    settings = TrainSettings(cond="augment", loss=loss, dim=4, batch=8)
    assert with_defaults(settings, Factors(()), 64, 100).space == space


def test_folders_that_cannot_be_trained_on(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    make_dataset(tmp_path / "begun", 20, finished=False)
    for folder, sentence in {
        root / "test": "is a test set",
        tmp_path / "none": "There is no folder",
        tmp_path / "empty": "is empty",
        tmp_path / "begun": "is not finished yet",
    }.items():
        done = ident3d("train", folder, "--out", tmp_path / "run", *TINY)
        assert done.exit_code == 2
        assert sentence in done.stderr
    done = ident3d("train", "--root", tmp_path / "empty", *TINY)
    assert done.exit_code == 2
    assert "There is no complete training set below" in done.stderr
    done = ident3d("train", root / "test", "--out", tmp_path / "run", *TINY, "--allow-same", "--json")
    assert done.exit_code == 0, done.output
    assert "Scored on images that the run was trained on." in done.stdout


def test_without_a_folder_nothing_is_guessed(root: Path, tmp_path: Path) -> None:
    done = ident3d("train", "--root", root, "--out", tmp_path / "run", *TINY)
    assert "80 images of 16 pixels" in done.stderr
    make_dataset(tmp_path / "scratch", 12)
    make_dataset(tmp_path / "real", 40)
    done = ident3d("train", "--root", tmp_path, "--out", tmp_path / "other", *TINY)
    assert done.exit_code == 2
    for fact in ("2 training sets", f"{tmp_path / 'scratch'} (12 images)", f"{tmp_path / 'real'} (40 images)"):
        assert fact in done.stderr
    assert not (tmp_path / "other").exists()


def test_resume_says_where_there_is_nothing_to_go_on_with(root: Path, tmp_path: Path) -> None:
    command = ["train", root / "train", "--out", tmp_path / "run", *TINY, "--resume"]
    assert "held no run to go on with" in ident3d(*command).output
    assert "held no run to go on with" not in ident3d(*command).output


def test_a_smaller_size_is_the_runs_size(root: Path, tmp_path: Path) -> None:
    settings = TrainSettings(encoder="tiny:small", batch=32, steps=1, size=8)
    run = train(root / "train", settings, out=tmp_path / "run", workers=0, show_progress=False)
    assert evaluate(run.path, root / "test", show_progress=False, encoder="tiny:small").count == 70


def test_the_periodic_variant_has_a_product_space(tmp_path: Path) -> None:
    for split in ("train", "test"):
        make_dataset(tmp_path / split, 60, scene="3dident-periodic", split=split)
    words = [*TINY, "--cond", "vmf", "--sigma", "0.05"]
    done = ident3d("train", tmp_path / "train", "--out", tmp_path / "run", *words, "--json")
    assert done.exit_code == 0, done.output
    run = open_run(tmp_path / "run")
    assert run.settings.space == "box*sphere"
    codes = np.load(tmp_path / "run/evaluation-codes.npy", allow_pickle=False)
    assert codes.shape == (60, 11)
    np.testing.assert_allclose(np.linalg.norm(codes[:, 3:], axis=1), 1, rtol=1e-5)
    refused = ident3d("train", tmp_path / "train", "--out", tmp_path / "other", *words, "--dim", "5")
    assert refused.exit_code == 2
    assert "3 + 8 raw latents" in refused.stderr
    # The eight numbers of its angles lie on a sphere, which has a radius.
    done = ident3d("train", tmp_path / "train", "--out", tmp_path / "wide", *words, "--radius", "2")
    assert done.exit_code == 0, done.output
    assert open_run(tmp_path / "wide").settings.radius == 2
