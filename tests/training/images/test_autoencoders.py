"""β-VAE, SlowVAE and Ada-GVAE through the one trainer: to the bit, with means as codes, and what they refuse."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from ident3d import encode, evaluate, from_arrays, report
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.run import open_run, trained_encoder
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.loop import checkpoint
from ident3d.training.loop.log_file import read_log
from ident3d.training.losses.aninfonce import PairRegression
from ident3d.training.report.traversals import decode, trained_decoder, walk

N = 48
SLOW = TrainSettings(loss="slowvae", encoder="higgins", dim=4, batch=8, steps=5, sigma=0.5, dtype="fp32")
# A VAE of single images, as on MNIST.
ALONE = TrainSettings(
    loss="betavae", beta=2.0, encoder="higgins", dim=4, batch=8, steps=1, cond="augment", augment="none", dtype="fp32"
)
CASES = {
    "grey": [SLOW, replace(SLOW, loss="adagvae", encoder="locatello", beta=2.0)],
    "colours": [replace(SLOW, loss="betavae", encoder="conv", chunk=6)],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Squares that move, grey and in colours, each as a training and a test set."""
    root = tmp_path_factory.mktemp("squares")
    for split, seed in (("train", 0), ("test", 1)):
        z = np.random.default_rng(seed).uniform(-1, 1, (N, 2))
        z[:4] = [[-1, -1], [-1, 1], [1, -1], [1, 1]]
        grey = np.zeros((N, 64, 64), np.uint8)
        for image, (x, y) in zip(grey, np.rint(20 + 20 * z).astype(int), strict=True):
            image[y : y + 20, x : x + 20] = 200
        colours = np.stack([grey, grey // 2, 255 - grey], -1)
        for name, images in (("grey", grey), ("colours", colours)):
            from_arrays(images, z, root / f"{name}-{split}", names=["x", "y"], split=split, show_progress=False)
    return root


def quick(path: Path, settings: TrainSettings, out: Path, **options: Any) -> Path:
    options = {"workers": 0, "show_progress": False, "log_every": 1, "device": "cpu"} | options
    return train(path, settings, out=out, **options).path


@pytest.mark.parametrize(("images", "s"), [(images, s) for images, all_s in CASES.items() for s in all_s])
def test_a_stopped_autoencoder_goes_on_to_the_same_bits(
    root: Path, tmp_path: Path, images: str, s: TrainSettings
) -> None:
    torch.set_num_threads(1)
    data = root / f"{images}-train"
    whole, parts = quick(data, s, tmp_path / "whole"), quick(data, replace(s, steps=2), tmp_path / "parts")
    half = checkpoint.load(parts)
    quick(data, s, parts, resume=True)
    ours, theirs = checkpoint.load(parts), checkpoint.load(whole)
    assert ours.tensors.keys() == theirs.tensors.keys() >= {"objective.decoder.0.weight"}
    assert all(torch.equal(value, theirs.tensors[name]) for name, value in ours.tensors.items())
    moved = [name for name, value in theirs.tensors.items() if not torch.equal(value, half.tensors[name])]
    assert {"objective.decoder.0.weight", "model.backbone.0.weight"} <= set(moved)
    line = read_log(whole)[-1]
    assert line["reconstruction"] > 0
    assert line["kl"] >= 0
    assert ("shared" in line) == (s.loss == "adagvae")


def test_codes_are_the_means_of_images_that_are_not_normalised(root: Path, tmp_path: Path) -> None:
    run = quick(root / "grey-train", SLOW, tmp_path / "run")
    recorded = json.loads((run / "run.json").read_text())
    assert recorded["pixels"] == {"mean": [0.0], "std": [1.0]}
    assert {"beta": 1.0, "gamma": 10.0, "laplace_rate": 6.0, "space": "unbounded"}.items() <= recorded[
        "settings"
    ].items()
    codes = np.load(encode(run, root / "grey-test", tmp_path / "codes.npy", device="cpu", show_progress=False))
    model, _ = trained_encoder(open_run(run))
    unit = ImageDataset(root / "grey-test").batch(np.arange(N))[1].float() / 255
    with torch.no_grad():
        means, raw = model(unit), model.train()(unit)
    assert raw.shape == (N, 8)
    np.testing.assert_allclose(codes, means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(codes, raw[:, :4], rtol=1e-5, atol=1e-6)
    found = evaluate(run, root / "grey-test", metrics="mcc_pearson", device="cpu", show_progress=False)
    np.testing.assert_array_equal(found.codes, codes)


def test_the_report_shows_what_the_decoder_makes(root: Path, tmp_path: Path) -> None:
    run = quick(root / "grey-train", SLOW, tmp_path / "run")
    codes = evaluate(run, root / "grey-test", metrics="mcc_pearson", device="cpu", show_progress=False).codes
    page = report(run).read_text()
    sections = page[page.index("Reconstructions") : page.index("Correlation of latents")]
    assert sections.count("<img") == 2 * 8 + 4 * 7, "eight images twice, and seven steps of four codes"
    assert "reconstruction error over steps" in page
    decoder = trained_decoder(open_run(run))
    along = walk(codes.astype(np.float64), start=3, k=1)
    assert (along[:, [0, 2, 3]] == codes[3, [0, 2, 3]]).all()
    assert (np.diff(along[:, 1]) > 0).all()
    with torch.no_grad():
        shades = torch.sigmoid(decoder(torch.from_numpy(along).float()))[:, 0]
    np.testing.assert_allclose(decode(decoder, along)[..., 0], 255 * shades, atol=0.51)
    (run / checkpoint.CHECKPOINT_FILE).unlink()
    assert "has no checkpoint" in report(run).read_text()


def test_without_latents_the_report_shows_training_images(root: Path, tmp_path: Path) -> None:
    pixels = ImageDataset(root / "grey-train").images(np.arange(12))
    from_arrays(pixels, None, tmp_path / "plain", show_progress=False)
    run = quick(tmp_path / "plain", ALONE, tmp_path / "run")
    page = report(run).read_text()
    assert page[page.index("Training images, and below") :].count("<img") == 2 * 8 + 4 * 7
    # Made anew, the folder holds other images than those that were trained on.
    shutil.rmtree(tmp_path / "plain")
    from_arrays(255 - pixels, None, tmp_path / "plain", show_progress=False)
    assert "Reconstructions" not in report(run).read_text()


def test_a_batch_in_chunks_has_the_gradients_of_the_whole(root: Path, tmp_path: Path) -> None:
    """Adam's first moments after a step are its gradients, of encoder and decoder alike."""
    settings = replace(SLOW, steps=1)
    whole = checkpoint.load(quick(root / "grey-train", settings, tmp_path / "whole")).part("optimiser.")
    chunked = checkpoint.load(quick(root / "grey-train", replace(settings, chunk=5), tmp_path / "c")).part("optimiser.")
    moments = [name for name in whole if name.endswith("exp_avg")]
    assert len(moments) == 24, "six layers of either network, each with weights and biases"
    for name in moments:
        largest = float(whole[name].abs().max())
        torch.testing.assert_close(chunked[name], whole[name], rtol=1e-3, atol=1e-4 * largest, msg=name)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--loss", "slowvae", "--size", "32"], ["--size 64", "not 32"]),
        (["--loss", "slowvae", "--space", "box"], ["slowvae", "--space unbounded"]),
        (["--loss", "betavae", "--gamma", "1"], ["--gamma is for --loss slowvae"]),
        (["--loss", "delta", "--beta", "1"], ["--beta is for --loss slowvae, betavae, adagvae"]),
        (["--loss", "adagvae", "--laplace-rate", "1"], ["--laplace-rate is for --loss slowvae"]),
        (["--loss", "slowvae", "--beta", "-1"], ["--beta is a number of at least 0"]),
        (["--loss", "slowvae", "--laplace-rate", "0"], ["--laplace-rate is a number above 0"]),
        (["--loss", "slowvae", "--lambda", "9", "--lambda", "4"], ["Two --lambda", "slowvae"]),
        (["--loss", "slowvae", "--hard-lambda", "9"], ["--hard-lambda", "slowvae"]),
        (["--loss", "slowvae", "--supervised"], ["--supervised"]),
        (["--loss", "slowvae", "--tau", "2"], ["--tau", "slowvae"]),
        (["--loss", "slowva"], ["'slowvae'?"]),
        (["--drop-last"], ["--drop-last is for --loss au, not for delta"]),
        (["--loss", "au", "--space", "unbounded", "--dim", "1", "--drop-last"], ["--drop-last", "--dim 2"]),
        (["--encoder", "higgins", "--size", "32"], ["higgins", "64 pixels, not 32"]),
    ],
)
def test_what_autoencoders_refuse(root: Path, tmp_path: Path, words: list[str], facts: list[str]) -> None:
    given = ["train", str(root / "grey-train"), "--out", str(tmp_path / "run"), "--batch", "8", "--device", "cpu"]
    done = CliRunner().invoke(main, [*given, "--workers", "0", "--steps", "1", *words])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert all(fact in done.stderr for fact in facts), done.stderr
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_number_ends_the_run(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"The loss is (nan|inf) by step \d; the checkpoint of step 1 is intact"):
        quick(root / "grey-train", replace(SLOW, lr=1e6), tmp_path / "run", save_every=1)
    assert checkpoint.load(tmp_path / "run").step == 1


def test_l_au_without_its_last_code_does_not_train_it(root: Path, tmp_path: Path) -> None:
    settings = replace(SLOW, loss="au", space="unbounded", alpha=0.9, model_p=1.0, steps=3, drop_last=True)
    run = quick(root / "grey-train", settings, tmp_path / "run")
    moments = checkpoint.load(run).part("optimiser.")
    last = moments["10.exp_avg"]
    assert last.shape == (4, 256)
    assert last[:3].any(1).all()
    assert not last[3].any()


def test_pcl_learns_its_regression_and_resumes(root: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    s = replace(SLOW, loss="pcl", space="unbounded")
    whole, parts = quick(root / "grey-train", s, tmp_path / "whole"), tmp_path / "parts"
    quick(root / "grey-train", replace(s, steps=2), parts)
    quick(root / "grey-train", s, parts, resume=True)
    ours, theirs = checkpoint.load(parts).tensors, checkpoint.load(whole).tensors
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    start = PairRegression(4).state_dict()
    assert all(not torch.equal(ours[f"objective.regression.{name}"], value) for name, value in start.items())


def test_runs_without_an_autoencoder_record_nothing_new(root: Path) -> None:
    world = ImageDataset(root / "grey-train").world
    new = {"beta", "gamma", "laplace_rate", "drop_last"}
    for loss in ("delta", "au", "simclr"):
        complete = with_defaults(TrainSettings(loss=loss, batch=8, space="unbounded"), world, 64, N)
        assert not new & complete.as_dict().keys()
    complete = with_defaults(replace(SLOW, gamma=0.0), world, 64, N)
    assert complete.as_dict()["gamma"] == 0.0, "a weight of 0 is a weight"
    assert TrainSettings.from_dict(json.loads(json.dumps(complete.as_dict()))) == complete
