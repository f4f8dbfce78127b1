"""Tables of what is read out of features: on fetched data, or on a user's own pictures."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.loaders.layouts.arrays import from_arrays
from ident3d.reproduction.reproduce import reproduce
from ident3d.reproduction.stored_data import DATA, stored_folder
from ident3d.training.experiments import augmentations2024
from ident3d.training.experiments.augmentations2024 import CIFAR, IMAGENET, MINIMAL
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import Experiment
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.train import train

IMAGES = 60
CLASSES = {"cifar10": DATA["cifar10/train"].factors.classes, "mnist": tuple("0123456789"), "imagenet": ()}


def labelled(root: Path, name: str, size: int, channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few noisy images of ten classes in place of the data that are fetched."""
    for k, split in enumerate(("train", "test")):
        rng = np.random.default_rng(k)
        classes = np.arange(IMAGES) % 10
        images = np.clip(rng.normal(20 * classes[:, None, None, None], 9, (IMAGES, size, size, channels)), 0, 255)
        key = f"{name}/{split}"
        from_arrays(
            images.astype(np.uint8), None, root / key, classes=classes, class_names=CLASSES[name], split=split,
            name=DATA[key].name, workers=1, show_progress=False,
        )  # fmt: skip
        monkeypatch.setitem(DATA, key, replace(DATA[key], images=IMAGES))


def short(experiment: Experiment) -> Experiment:
    (mini,) = experiment.profiles["mini"]
    few = replace(mini.settings, steps=2, batch=16)
    vae = mini.autoencoder and replace(mini.autoencoder, steps=2, batch=16)
    tiny = replace(mini, settings=few, autoencoder=vae, fraction=0.01)
    return replace(experiment, profiles={**experiment.profiles, "tiny": (tiny,)})


def run(root: Path, experiment: Experiment, **more: Any) -> tuple[Path, str]:
    options: dict[str, Any] = {"say": lambda _: None, "device": "cpu", "show_progress": False}
    return reproduce("", profile="tiny", root=root, experiment=experiment, **options | more)


def test_rows_on_cifar10_are_read_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled(tmp_path, "cifar10", 32, 3, monkeypatch)
    folder, markdown = run(tmp_path, short(CIFAR), rows=["infonce", "aninfonce-no-l2"])
    results = {each["row"]: each for each in json.loads((folder / "table.json").read_text())["results"]}
    figures = results["aninfonce-no-l2"]["figures"]
    assert set(figures) == {*CIFAR.columns, *CIFAR.further["Behind the projector"]}
    assert results["infonce"]["facts"]["settings"]["tau"] == 0.5
    first, _, rest = markdown.partition("## cifar10: behind the projector")
    assert re.search(rf"infonce +\| 0\.909 +\| {results['infonce']['figures']['class']:.4f} ", first)
    assert re.search(rf"no-l2 +\| 0\.791 +\| {figures['class, codes']:.4f} ", rest)
    assert "share of the images that are read out" in rest
    assert "on test images" in first
    least, most = results["aninfonce-no-l2"]["facts"]["learnt_lambda"]
    assert 0 < least < most
    assert re.search(r"no-l2 +\| loss aninfonce, space unbounded", rest)
    assert re.search(rf"no-l2 +\| 0 +\| {least:.3g} +\| {most:.3g} ", rest)
    said: list[str] = []
    run(tmp_path, short(CIFAR), rows=["infonce", "aninfonce-no-l2"], say=said.append)
    assert said == ["All rows asked for are finished."]


def test_codes_on_mnist_are_scored_by_those_of_a_vae(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled(tmp_path, "mnist", 28, 1, monkeypatch)
    monkeypatch.setattr("ident3d.reproduction.autoencoder.mnist_below", lambda base: base / "mnist/train")
    said: list[str] = []
    folder, markdown = run(tmp_path, short(MINIMAL), rows=["aninfonce"], say=said.append)
    assert said[0].startswith("1 row to do; about ")
    assert said[1].startswith("First the autoencoder, 2 steps on MNIST")
    (result,) = json.loads((folder / "table.json").read_text())["results"]
    assert {*MINIMAL.columns, *MINIMAL.further["The last hidden layer"]} <= set(result["figures"])
    assert "steps of the autoencoder" in markdown
    said.clear()
    run(tmp_path, short(MINIMAL), rows=["aninfonce"], say=said.append)
    assert said == ["All rows asked for are finished."]

    # Of a VAE with other weights the row's R² would be another.
    (path,) = folder.glob("*-autoencoder")
    shutil.rmtree(path)
    retrained = of_seed(1).profiles["tiny"][0].autoencoder
    train(tmp_path / "mnist/train", retrained, out=path, device="cpu", show_progress=False)
    for rows in (["aninfonce"], ["infonce"]):
        with pytest.raises(UserError, match=r"aninfonce-seed0 was finished with other settings \(autoencoder"):
            run(tmp_path, of_seed(1), rows=rows)
    # A row of before it was recorded is taken as it is.
    file = next(folder.glob("*/aninfonce-seed0/result.json"))
    content = json.loads(file.read_text())
    assert len(content["facts"].pop("autoencoder")["weights_sha256"]) == 64
    file.write_text(json.dumps(content))
    run(tmp_path, of_seed(1), rows=["aninfonce"], say=said.append)
    assert said[-1] == "All rows asked for are finished."


def of_seed(seed: int) -> Experiment:
    """Return the table of MNIST with an autoencoder of another seed."""
    experiment = short(MINIMAL)
    (tiny,) = experiment.profiles["tiny"]
    other = replace(tiny, autoencoder=replace(tiny.autoencoder, seed=seed))
    return replace(experiment, profiles={**experiment.profiles, "tiny": (other,)})


def test_data_that_are_not_there_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"datasets fetch cifar10"):
        run(tmp_path, short(CIFAR))
    with pytest.raises(UserError, match=r"datasets fetch mnist"):
        run(tmp_path, short(MINIMAL))
    with pytest.raises(UserError, match=r"import --folder PATH/train .*imagenet/train"):
        reproduce("imagenet-readout", root=tmp_path)
    with pytest.raises(UserError, match=r"--validation"):
        run(tmp_path, short(CIFAR), validation=True)
    labelled(tmp_path, "cifar10", 32, 3, monkeypatch)
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"60 images of CIFAR-10.*50,000"):
        run(tmp_path, short(CIFAR))
    assert not list(tmp_path.rglob("reproduce"))


def test_a_users_own_pictures_may_have_any_name_and_number(tmp_path: Path) -> None:
    images = np.zeros((8, 16, 16, 3), np.uint8)
    from_arrays(images, None, tmp_path / "imagenet/train", classes=np.arange(8) % 2, workers=1, show_progress=False)
    assert stored_folder("imagenet/train", tmp_path, print, False) == tmp_path / "imagenet/train"


@pytest.mark.parametrize("experiment", augmentations2024.EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_row_is_accepted_in_every_profile(experiment: Experiment) -> None:
    assert EXPERIMENTS[experiment.name] is experiment
    assert set(experiment.profiles) == ({"paper"} if experiment is IMAGENET else {"paper", "mini"})
    every = {*experiment.columns, *(name for columns in experiment.further.values() for name in columns)}
    for profile in experiment.profiles:
        for variant in experiment.variants(profile):
            size = {"cifar10": 32, "mnist": 28, "imagenet": 224}[variant.name]
            for row in experiment.rows_of(variant):
                s = with_defaults(variant.settings_of(row, 0), Factors((), CLASSES[variant.name]), size, 50_000)
                assert set(row.paper) <= every
                assert (s.loss, s.views) == ("aninfonce" if "aninfonce" in row.name else "simclr", 2)
                assert s.space == ("unbounded" if "no-l2" in row.name else "sphere")
