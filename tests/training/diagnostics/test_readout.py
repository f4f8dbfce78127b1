"""What is read out of a run's features: classes, single augmentations, of backbone and codes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.layouts.arrays import from_arrays
from ident3d.training.diagnostics.features import features_of
from ident3d.training.diagnostics.readout import read_out
from ident3d.training.images.evaluate import evaluate
from ident3d.training.images.run import open_run, trained_encoder
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop.log_file import read_log
from ident3d.training.views.choice import NOTHING, SINGLE

SIDE, CLASSES = 16, ("left", "right")
SETTINGS = TrainSettings(
    encoder="conv+projector8", dim=4, cond="augment", augment="blur", loss="aninfonce", space="unbounded", batch=16,
    steps=1, dtype="fp32",
)  # fmt: skip


def coloured(n: int, seed: int, channels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of one strong colour each, brighter on the left or on the right: their class."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(2, size=n)
    colours = rng.uniform(20, 120, (n, 1, 1, channels))
    images = np.repeat(np.repeat(colours, SIDE, 1), SIDE, 2)
    for image, c in zip(images, classes, strict=True):
        image[:, c * SIDE // 2 : (c + 1) * SIDE // 2] += 100
    return (images + rng.uniform(0, 10, images.shape)).astype(np.uint8), classes


def folder(path: Path, n: int, seed: int, channels: int = 3, split: str = "train") -> Path:
    images, classes = coloured(n, seed, channels)
    from_arrays(images, None, path, classes=classes, class_names=CLASSES, split=split, workers=1, show_progress=False)
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A run on colours or on grey, with both of its folders beside it."""
    base = tmp_path_factory.mktemp("readout")
    for channels in (1, 3):
        where = base / str(channels)
        folder(where / "train", 120, 0, channels)
        folder(where / "test", 60, 1, channels, "test")
        train(where / "train", SETTINGS, out=where / "run", device="cpu", workers=0, show_progress=False)
    return lambda channels: base / str(channels)


def test_class_and_augmentations_are_read_out(work: Callable[[int], Path]) -> None:
    run = work(3) / "run"
    found = read_out(run, device="cpu", show_progress=False)
    assert list(found.backbone) == ["class", "kNN", *SINGLE, "mean"]
    assert found.backbone.keys() == found.codes.keys()
    assert (found.fitted, found.scored) == (120, 60)
    # Even random features know the side that is bright, and grey from a strong colour.
    assert found.backbone["class"] > 0.9
    assert found.backbone["grey"] > 0.8
    assert found.backbone["mean"] == pytest.approx(np.mean([found.backbone[name] for name in SINGLE]))
    assert json.loads((run / "readout.json").read_text())["codes"] == found.codes
    assert read_out(run, device="cpu", show_progress=False) == found


def test_a_step_that_changes_nothing_is_not_read_out(
    work: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read out of it would be a label that leaked: by order, by number or by the way through the encoder."""
    monkeypatch.setitem(SINGLE, "hue", replace(NOTHING, jitter=(0, 0, 0, 0), jitter_probability=1.0))
    fit, score = folder(tmp_path / "fit", 500, 2), folder(tmp_path / "score", 500, 3, split="test")
    run = work(3) / "run"
    found = [read_out(run, score, ["hue"], data=fit, seed=k, device="cpu", show_progress=False) for k in range(3)]
    # Of 3 times 500 labels the standard deviation is .013.
    for each in ("backbone", "codes"):
        assert np.mean([getattr(one, each)["hue"] for one in found]) == pytest.approx(0.5, abs=0.05)


def test_classes_are_compared_by_name(work: Callable[[int], Path], tmp_path: Path) -> None:
    images, classes = coloured(60, 4)
    for name, wanted, known in (("right", 1, "right"), ("other", 1, "neither")):
        chosen, zeros = images[classes == wanted], np.zeros((classes == wanted).sum(), np.int64)
        from_arrays(
            chosen, None, tmp_path / name, classes=zeros, class_names=[known], split="test", show_progress=False
        )
    # Of a folder with one of both classes: its number there is 0, in training 1.
    found = read_out(work(3) / "run", tmp_path / "right", ["blur"], device="cpu", show_progress=False)
    assert found.backbone["class"] > 0.9
    with pytest.raises(UserError, match=r"other.*class neither"):
        read_out(work(3) / "run", tmp_path / "other", ["blur"], device="cpu", show_progress=False)
    # A class that is declared and of no image, or images to fit on that have no classes, hinder nothing.
    both = ("right", "neither")
    from_arrays(chosen, None, tmp_path / "none", classes=zeros, class_names=both, split="test", show_progress=False)
    assert (
        read_out(work(3) / "run", tmp_path / "none", ["blur"], device="cpu", show_progress=False).backbone["class"]
        > 0.9
    )
    from_arrays(images, None, tmp_path / "plain", show_progress=False)
    plain = {"data": tmp_path / "plain", "device": "cpu", "show_progress": False}
    assert list(read_out(work(3) / "run", tmp_path / "other", ["blur"], **plain).backbone) == ["blur", "mean"]


def test_without_latents_nothing_is_scored_and_the_report_shows_the_read_outs(work: Callable[[int], Path]) -> None:
    run = work(1) / "run"
    assert [line["r2"] for line in read_log(run)] == [None]
    with pytest.raises(UserError, match="--readout all"):
        evaluate(run, device="cpu")
    result = CliRunner().invoke(main, ["evaluate", str(run), "--readout", "blur", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    page = (run / "report.html").read_text()
    assert "--readout all" in page
    found = json.loads((run / "readout.json").read_text())
    assert f"<td>blur</td><td>{found['backbone']['blur']:.3f}</td>" in page
    assert "--supervised" not in page


def test_the_command_prints_what_is_written(work: Callable[[int], Path]) -> None:
    run = str(work(3) / "run")
    result = CliRunner().invoke(main, ["evaluate", run, "--readout", "grey,blur", "--device", "cpu", "--json"])
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout)["codes"]) == ["class", "kNN", "grey", "blur", "mean"]
    for given in (["--readout", "gray"], ["--readout", "grey", "--n", "3"], ["--readout", "all", "--metrics", "mig"]):
        result = CliRunner().invoke(main, ["evaluate", run, *given, "--device", "cpu"])
        assert result.exit_code == 2, result.output
        assert len(result.stderr.splitlines()) == 1


def test_colours_are_not_read_out_of_grey_images(work: Callable[[int], Path]) -> None:
    run = work(1) / "run"
    found = read_out(run, device="cpu", show_progress=False)
    assert "hue" not in found.backbone
    assert "brightness" in found.backbone
    with pytest.raises(UserError, match=r"grey.*hue"):
        read_out(run, augmentations=["hue"], device="cpu")


def test_too_few_images_and_images_of_the_training_are_refused(work: Callable[[int], Path]) -> None:
    run = work(3) / "run"
    with pytest.raises(UserError, match=r"at least 8"):
        read_out(run, fitted=3, device="cpu", show_progress=False)
    with pytest.raises(UserError, match=r"trained on"):
        read_out(run, work(3) / "train", device="cpu", show_progress=False)
    with pytest.raises(UserError, match=r"test holds the images that the read-out is fitted on"):
        read_out(run, work(3) / "test", data=work(3) / "test", device="cpu", show_progress=False)
    with pytest.raises(UserError, match=r"--seed.*-1"):
        read_out(run, seed=-1, device="cpu", show_progress=False)


def test_features_are_what_the_last_linear_layer_gets(work: Callable[[int], Path], tmp_path: Path) -> None:
    where = work(3)
    images, numbers = ImageDataset(where / "test"), np.arange(10)
    plain = TrainSettings(**{**vars(SETTINGS), "encoder": "conv"})
    other = train(where / "train", plain, out=tmp_path / "run", device="cpu", workers=0, show_progress=False)
    for run in (open_run(where / "run"), other):
        model, _ = trained_encoder(run)
        found = features_of(run, model, images, numbers, device="cpu", show=False)
        x = run.pixels.prepare(images.batch(numbers)[1], torch.device("cpu"))
        with torch.inference_mode():
            body = model.backbone if model.projected else nn.Sequential(*list(model.backbone.children())[:-1])
            np.testing.assert_allclose(found.backbone, body(x).numpy(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found.codes, model(x).numpy(), rtol=1e-5, atol=1e-6)
        half = np.arange(10) % 2 == 0
        grey = features_of(run, model, images, numbers, how=SINGLE["grey"], which=half, device="cpu", show=False)
        assert (np.abs(grey.backbone - found.backbone).max(1) > 1e-6).tolist() == half.tolist()
