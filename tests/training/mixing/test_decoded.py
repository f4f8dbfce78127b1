"""VAE-MNIST in small: an autoencoder of our trainer, its decoder as the mixing, scores on real images, the table."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from ident3d import MixingSettings, TrainSettings, from_arrays, mixing, train
from ident3d.cli import main
from ident3d.downloads.labelled_sets import MNIST
from ident3d.errors import UserError
from ident3d.latents.distributions.by_name import marginal, uniforms
from ident3d.latents.distributions.spaces import Sphere
from ident3d.reproduction import autoencoder
from ident3d.reproduction.reproduce import reproduce
from ident3d.training.experiments.experiment import Experiment
from ident3d.training.experiments.vaemnist2024 import VAE_MNIST
from ident3d.training.images.run import open_run
from ident3d.training.loop import checkpoint
from ident3d.training.loop.run_folder import hold_folder
from ident3d.training.mixing.decoded import SAMPLES_FILE, SHOWN_LAMBDAS, conditional_samples, decoded_images
from ident3d.training.mixing.scores import evaluate_mixing
from ident3d.training.report.mixing_report import write_mixing_report
from ident3d.training.report.traversals import trained_decoder

SIZE, DIM = 10, 4
VAE = TrainSettings(
    loss="betavae", beta=2.0, encoder="32x1", dim=DIM, cond="augment", augment="none", batch=16, steps=150, lr=3e-3,
    dtype="fp32",
)  # fmt: skip
QUICK: dict[str, Any] = {"device": "cpu", "show_progress": False}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with `mnist`: grey squares at the left or the right, which is their class."""
    root = tmp_path_factory.mktemp("digits")
    rng = np.random.default_rng(0)
    for split, n in (("train", 240), ("test", 60)):
        images, classes = np.zeros((n, SIZE, SIZE), np.uint8), np.arange(n) % 2
        for image, kind, row, shade in zip(
            images, classes, rng.integers(0, 6, n), rng.integers(90, 255, n), strict=True
        ):
            image[row : row + 4, 5 * kind : 5 * kind + 4] = shade
        from_arrays(
            images, None, root / "mnist" / split, classes=classes, split=split, name="MNIST", show_progress=False
        )
    return root


@pytest.fixture(scope="module")
def vae(root: Path) -> Path:
    torch.set_num_threads(1)
    return train(root / "mnist/train", VAE, out=root / "vae", workers=0, **QUICK).path


def test_the_autoencoder_sees_each_image_once_and_as_it_is(vae: Path) -> None:
    run = open_run(vae)
    assert (run.settings.views, run.pixels.mean, run.pixels.std) == (1, (0.0,), (1.0,))
    lines = [json.loads(line) for line in (vae / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["reconstruction"] < 0.7 * lines[0]["reconstruction"]


def test_the_mixing_is_the_trained_decoder_at_the_priors_length(vae: Path) -> None:
    generator = decoded_images(vae, DIM)
    z = marginal("uniform", Sphere(DIM)).sample(7, uniforms(torch.Generator().manual_seed(0), torch.empty(0)))
    with torch.no_grad():
        wanted = trained_decoder(open_run(vae))(DIM**0.5 * z).sigmoid()
        torch.testing.assert_close(generator(z), wanted.reshape(7, SIZE**2))
    assert generator.source.shape == (1, SIZE, SIZE)


def test_pairs_of_a_larger_precision_look_more_alike(vae: Path) -> None:
    shown = conditional_samples(decoded_images(vae, DIM), DIM).astype(float)
    assert shown.shape[-3:] == (SIZE, SIZE, 1)
    np.testing.assert_array_equal(shown[:, :, 0], np.broadcast_to(shown[:1, :, 0], shown[:, :, 0].shape))
    apart = np.abs(shown[:, :, 1:] - shown[:, :, :1]).mean((1, 2, 3, 4, 5))
    assert (np.diff(apart) < 0).all(), apart


def test_a_run_on_decoded_latents_is_scored_on_real_images(vae: Path, tmp_path: Path) -> None:
    settings = MixingSettings(
        dim=DIM, lambdas=((5.0, 25.0),), mixing=f"decoder:{vae}", encoder="32x1", batch=128, steps=150, lr=3e-3
    )
    whole = mixing(settings, out=tmp_path / "whole", **QUICK)
    found = evaluate_mixing(whole)
    # The decoder is part of the checkpoint, so that a finished run comes back whole.
    again = mixing(settings, out=tmp_path / "whole", resume=True, **QUICK)
    z = whole.sampler.draw(8, torch.Generator().manual_seed(0))[0]
    assert torch.equal(again.encoded(again.observed(z)), whole.encoded(whole.observed(z)))
    figures = found["figures"]
    assert {"R² content", "R² style", "kNN", "Λ̂ off"} <= figures.keys()
    assert figures["kNN"] > 0.9, "squares at the left and at the right are told apart by any code"
    assert figures["R²"] > 0.5
    with Image.open(tmp_path / "whole" / SAMPLES_FILE) as picture:
        assert picture.height > len(SHOWN_LAMBDAS) * SIZE
    page = write_mixing_report(tmp_path / "whole", found).read_text()
    assert "data:image/png" in page
    assert "kNN" in page


def test_a_run_goes_on_with_its_decoder_wherever_that_lies_and_with_no_other(vae: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(vae, tmp_path / "moved"))
    settings = MixingSettings(
        dim=DIM, lambdas=((5.0, 25.0),), mixing=f"decoder:{vae}", encoder="32x1", batch=8, steps=2
    )
    mixing(settings, out=tmp_path / "run", **QUICK)
    there = replace(settings, mixing=f"decoder:{run}")
    mixing(there, out=tmp_path / "run", resume=True, **QUICK)
    kept = checkpoint.load(run)
    other = {name: value + (name.startswith(checkpoint.OBJECTIVE)) for name, value in kept.tensors.items()}
    checkpoint.save(run, replace(kept, tensors=other))
    with pytest.raises(UserError, match=r"another decoder than .*moved"):
        mixing(there, out=tmp_path / "run", resume=True, **QUICK)


def test_an_autoencoder_finds_its_images_where_they_were_moved(vae: Path, root: Path, tmp_path: Path) -> None:
    run, data = (
        Path(shutil.copytree(source, tmp_path / name)) for source, name in ((vae, "vae"), (root / "mnist", "mnist"))
    )
    autoencoder.check_autoencoder(run, VAE, data / "train")
    assert open_run(run).data["path"] == str(data / "train")
    with pytest.raises(UserError, match="other images"):
        autoencoder.check_autoencoder(run, VAE, other_images(tmp_path / "others"))


def other_images(folder: Path) -> Path:
    return from_arrays(
        np.eye(240 * SIZE, SIZE, dtype=np.uint8).reshape(240, SIZE, SIZE),
        None,
        folder,
        classes=np.arange(240) % 2,
        show_progress=False,
    ).path


def tiny_table(monkeypatch: pytest.MonkeyPatch, **change: Any) -> Experiment:
    """The table in a few steps, with an autoencoder that is changed, on images as those of `root`."""
    few = replace(MNIST, images={"train": 240, "test": 60}, size=SIZE, classes=("0", "1"))
    monkeypatch.setattr(autoencoder, "MNIST", few)
    (variant,) = VAE_MNIST.profiles["mini"]
    tiny = replace(variant.settings, encoder="16x1", steps=4, batch=32, dim=DIM)
    small = replace(variant, settings=tiny, supervised={"steps": 2}, autoencoder=replace(VAE, steps=6, **change))
    rows = {row.name: replace(row, change={**(row.change or {}), "dim": DIM}) for row in VAE_MNIST.rows}
    profiles = {"mini": (small,), "paper": VAE_MNIST.profiles["paper"]}
    return replace(VAE_MNIST, profiles=profiles, rows=tuple(rows.values()))


def test_the_table_trains_the_autoencoder_first_and_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    options: dict[str, Any] = {
        "profile": "mini", "root": root, "out": tmp_path / "table", "experiment": tiny_table(monkeypatch),
        "say": said.append, "workers": 1, **QUICK,
    }  # fmt: skip
    _, markdown = reproduce("vae-mnist", rows=["aninfonce-25"], **options)
    assert "6 steps" in said[0]
    assert (tmp_path / "table" / SAMPLES_FILE).is_file()
    assert markdown.count("| aninfonce-25") == 2, "its figures, and its Λ̂"
    assert "kNN" in markdown
    assert "| mixing " not in markdown
    assert re.search(r"encoder of the autoencoder +\| 512x2 +\| 32x1 +\|", markdown)
    said.clear()
    reproduce("vae-mnist", rows=["infonce-25"], **options)
    assert not any("autoencoder" in sentence for sentence in said)
    result = tmp_path / "table/mixing/infonce-25-seed0/result.json"
    facts = json.loads(result.read_text())["facts"]
    assert facts["settings"]["mixing"] == "decoder:mixing-autoencoder"
    assert {len(facts["decoder"][name]) for name in ("weights_sha256", "images_sha256")} == {64}

    # A table that was moved is the same one; its autoencoder of other settings is not.
    (tmp_path / "table").rename(tmp_path / "moved")
    moved = options | {"out": tmp_path / "moved"}
    said.clear()
    reproduce("vae-mnist", rows=["infonce-25"], **moved)
    assert said == ["All rows asked for are finished."]
    with pytest.raises(UserError, match=r"started with other settings .*lr: 0\.003 there, 0\.1"):
        reproduce("vae-mnist", rows=["infonce-10"], **moved | {"experiment": tiny_table(monkeypatch, lr=0.1)})
    # Another autoencoder in its place makes other images, beside which finished rows cannot stand.
    run = tmp_path / "moved/mixing-autoencoder"
    shutil.rmtree(run)
    with pytest.raises(UserError, match=r"decoder\.weights_sha256"):
        reproduce("vae-mnist", rows=["infonce-10"], **moved | {"experiment": tiny_table(monkeypatch, seed=5)})
    shutil.rmtree(run)
    with hold_folder(run), pytest.raises(UserError, match=r"All rows need the autoencoder.* is being written"):
        reproduce("vae-mnist", rows=["infonce-10"], **moved)


@pytest.mark.parametrize("missing", ["train", "test", "classes"])
def test_mnist_is_checked_before_anything_is_trained(
    missing: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(root / "mnist", tmp_path / "mnist")
    if missing != "classes":
        shutil.rmtree(tmp_path / "mnist" / missing)
    experiment = tiny_table(monkeypatch)
    if missing == "classes":
        monkeypatch.setattr(autoencoder, "MNIST", replace(autoencoder.MNIST, classes=("0", "1", "2")))
    with pytest.raises(UserError, match="datasets fetch mnist"):
        reproduce("", profile="mini", root=tmp_path, experiment=experiment, rows=["infonce-25"], **QUICK)
    assert not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mixing", "decoder:nowhere", "--lambda", "5,25"], "nowhere"),
        (["--mixing", "decoder:VAE", "--lambda", "5,25", "--dim", "6"], "--dim 4"),
        (["--mixing", "decoder:VAE", "--dim", "4"], "--latent-space sphere"),
        (["--mixing", "decoder:VAE", "--lambda", "5,10,25", "--dim", "4"], "--lambda"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], says: str, vae: Path, tmp_path: Path) -> None:
    given = [word.replace("VAE", str(vae)) for word in words]
    done = CliRunner().invoke(main, ["mixing", *given, "--steps", "1", "--out", str(tmp_path / "run")])
    assert (done.exit_code, says in done.output, done.output.count("\n")) == (2, True, 1), done.output
    assert not (tmp_path / "run").exists()


def test_views_that_are_alike_are_for_autoencoders(root: Path, tmp_path: Path) -> None:
    settings = TrainSettings(cond="augment", augment="none", encoder="32x1", dim=3, batch=8)
    with pytest.raises(UserError, match="--augment none"):
        train(root / "mnist/train", settings, out=tmp_path / "run", **QUICK)
    with pytest.raises(UserError, match="512x2"):
        train(root / "mnist/train", replace(VAE, encoder="conv"), out=tmp_path / "run", **QUICK)
