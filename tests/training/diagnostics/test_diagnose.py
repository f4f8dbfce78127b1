"""What augmentations do to a user's own images, as figures and pictures."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from ident3d import diagnose
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.layouts.arrays import from_arrays
from ident3d.training.diagnostics.domain import domain_accuracy
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.views.choice import NOTHING

SIDE = 16


def noise(
    path: Path, channels: int, n: int = 160, seed: int = 0, split: str = "train", names: tuple[str, ...] = ()
) -> Path:
    """Images of noise, each about a level of its own: a blur is easily seen, and moves no level."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(60, 190, (n, 1, 1, channels))
    images = np.clip(levels + rng.normal(0, 25, (n, SIDE, SIDE, channels)), 0, 255).astype(np.uint8)
    given: dict[str, Any] = {"classes": np.arange(n) % len(names), "class_names": names} if names else {}
    from_arrays(images, None, path, split=split, workers=1, show_progress=False, **given)
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("own")
    return {"grey": noise(base / "grey", 1), "colour": noise(base / "colour", 3)}


def test_crops_are_seen_by_the_classifier_and_move_no_level(folders: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "seen"
    options = {"views": 40, "steps": 80, "batch": 32, "out": out, "device": "cpu", "show_progress": False}
    found = diagnose(folders["colour"], "crop-medium", **options)
    # An enlarged part of an image is smooth where the image is not.
    assert found.domain.accuracy > 0.7
    assert set(found.overlaps) == {64}
    assert found.overlaps[64].score < 0.3
    assert found.shape.two_peaks.shape == (10,)
    written = json.loads((out / "diagnosis.json").read_text())
    assert written["domain_accuracy"] == found.domain.accuracy
    assert (written["fitted"], written["held_out"], written["test"]) == (128, 32, None)
    assert written["settings"] == {"views": 40, "steps": 80, "batch": 32, "size": SIDE, "seed": 0}
    assert "versions" in written["facts"]
    for name in ("overlap", "conditional", "domain"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "views told from originals" in found.table()
    again = diagnose(folders["colour"], "crop-medium", **options)
    assert again.as_dict() == found.as_dict()


def test_codes_may_be_those_of_a_run(folders: dict[str, Path], tmp_path: Path) -> None:
    settings = TrainSettings(
        encoder="16", dim=3, cond="augment", augment="none", loss="betavae", batch=16, steps=1, dtype="fp32", size=8
    )
    run = train(folders["grey"], settings, out=tmp_path / "vae", device="cpu", workers=0, show_progress=False)
    command = ["diagnose", str(folders["grey"]), "--augment", "crop-large", "--run", str(run.path), "--views", "20"]
    command += ["--steps", "2", "--device", "cpu", "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert len(content["conditional"]["not_normal"]) == 3
    assert Path(content["out"]) == folders["grey"].resolve().with_name("grey-diagnosis")
    other = CliRunner().invoke(main, ["diagnose", str(folders["colour"]), "--run", str(run.path), "--device", "cpu"])
    assert (other.exit_code, len(other.stderr.splitlines())) == (2, 1)


def test_the_classifier_is_scored_on_the_test_set_beside_the_images_or_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_set = noise(tmp_path / "own" / "train", 1, 100, names=("a", "b"))
    test_set = noise(tmp_path / "own" / "test", 1, 60, 1, "test", names=("a", "b"))
    # Another's, of the same world: nothing says that these belong together, or they do not fit.
    strangers = {1: noise(tmp_path / "grey", 1, 40), 3: noise(tmp_path / "colour", 3, 60, 1, "test")}
    other = noise(tmp_path / "other", 1, 30, 2)
    # However many images the classifier learns from, pixels of a bounded number are held.
    monkeypatch.setattr("ident3d.training.diagnostics.diagnosis.OVERLAPPED", 64)
    options = {"views": 20, "steps": 2, "out": tmp_path / "out", "device": "cpu", "show_progress": False}
    found = diagnose(train_set, "blur", **options)
    assert (found.fitted, found.held_out, found.test) == (100, 60, test_set)
    assert len(found.domain.plain) == len(found.domain.augmented) == 60
    assert {batch: len(each.other) for batch, each in found.overlaps.items()} == {64: 64}
    assert str(test_set) in found.table()
    assert diagnose(strangers[1], "blur", **options).test is None
    # A test set has none beside it but itself.
    found = diagnose(test_set, "blur", **options)
    assert (found.fitted, found.held_out, found.test) == (48, 12, None)
    command = ["diagnose", str(train_set), "--augment", "blur", "--test", str(other), "--n", "50", "--views", "20"]
    command += ["--steps", "2", "--out", str(tmp_path / "out"), "--device", "cpu", "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert (content["fitted"], content["held_out"], content["test"]) == (50, 30, str(other))


def test_a_test_set_that_does_not_fit_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    few = noise(tmp_path / "few", 1, 5, 1)
    for test, said in ((folders["grey"], "learns from"), (folders["colour"], "3 channels"), (few, "at least 8")):
        with pytest.raises(UserError, match=said):
            diagnose(folders["grey"], "blur", test=test, out=tmp_path / "out", device="cpu")
    copy = noise(tmp_path / "copy", 1)
    with pytest.raises(UserError, match="learns from"):
        diagnose(folders["grey"], "blur", test=copy, out=tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_nothing_tells_views_from_originals_that_nothing_was_done_to(folders: dict[str, Path], tmp_path: Path) -> None:
    """Augmented images go through a step that changes no pixel: what was learnt then is a label that leaked."""
    null = replace(NOTHING, jitter=(0, 0, 0, 0), jitter_probability=1.0)
    others = ImageDataset(noise(tmp_path / "others", 3, 200, 1))
    found = domain_accuracy(
        ImageDataset(folders["colour"]), np.arange(160), others, np.arange(200), null,
        steps=80, batch=32, size=SIDE, device=torch.device("cpu"), show=False,
    )  # fmt: skip
    assert found.accuracy == pytest.approx(0.5, abs=0.03)
    assert np.mean(found.losses[-40:]) > 0.65


@pytest.mark.parametrize(
    ("kind", "augment", "more", "said"),
    [
        ("grey", "colour", {}, "grey.*colour"),
        ("grey", "colours", {}, "'colours'"),
        ("grey", "none", {}, "nothing to diagnose"),
        ("colour", "blur", {"views": 3}, "--views"),
        ("colour", "blur", {"views": 5_001}, "--views.*5,000"),
        ("colour", "blur", {"size": 17}, "16 pixels wide"),
        ("colour", "blur", {"size": 4}, "at least 8 pixels"),
        ("colour", "blur", {"seed": -1}, "--seed.*-1"),
        ("colour", "blur", {"n": 9}, "at least 40 images, not 9"),
        ("nothing", "blur", {}, "nothing"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    folders: dict[str, Path], tmp_path: Path, kind: str, augment: str, more: dict[str, int], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        diagnose(folders.get(kind, tmp_path / kind), augment, out=tmp_path / "out", device="cpu", **more)
    assert not (tmp_path / "out").exists()


def test_a_dataset_is_not_written_into(folders: dict[str, Path]) -> None:
    before = sorted(folders["grey"].rglob("*"))
    with pytest.raises(UserError, match="--out"):
        diagnose(folders["grey"], "blur", out=folders["grey"], device="cpu")
    assert sorted(folders["grey"].rglob("*")) == before
