"""What augmentations do to a user's own images, as figures and pictures."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ident3d import diagnose
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.layouts.arrays import from_arrays
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train

SIDE = 16


def noise(path: Path, channels: int, n: int = 160) -> Path:
    """Images of noise, each about a level of its own: a blur is easily seen, and moves no level."""
    rng = np.random.default_rng(0)
    levels = rng.uniform(60, 190, (n, 1, 1, channels))
    images = np.clip(levels + rng.normal(0, 25, (n, SIDE, SIDE, channels)), 0, 255).astype(np.uint8)
    from_arrays(images, None, path, workers=1, show_progress=False)
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
    assert written["held_out"] == 32
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


@pytest.mark.parametrize(
    ("kind", "augment", "more", "said"),
    [
        ("grey", "colour", {}, "grey.*colour"),
        ("grey", "colours", {}, "'colours'"),
        ("grey", "none", {}, "nothing to diagnose"),
        ("colour", "blur", {"views": 3}, "--views"),
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
