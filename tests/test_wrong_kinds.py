"""What is of a wrong kind, or nearly right, is answered with one sentence that names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from synthetic import make_dataset

import ident3d
from ident3d.cli import main
from ident3d.errors import UserError
from ident3d.loaders.format.description import differences
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.settings import TrainSettings
from ident3d.training.report.tables import used_settings
from ident3d.views import normalise


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("wrong") / "set", 8)


WRONG: Any = 5
CALLS: dict[str, Callable[[Path], object]] = {
    "not 5": lambda folder: ident3d.ImageDataset(WRONG),
    "'a'": lambda folder: ident3d.PairDataset(folder, seed="a"),  # type: ignore[arg-type]
    "'64'": lambda folder: ident3d.make_loader(ident3d.ImageDataset(folder), "64"),  # type: ignore[arg-type]
    "6.5": lambda folder: ident3d.make_loader(ident3d.ImageDataset(folder), 6.5),  # type: ignore[arg-type]
    "loss .* not 3": lambda folder: TrainSettings(loss=3),  # type: ignore[arg-type]
    "ndarray": lambda folder: normalise(np.zeros((1, 3, 8, 8), np.uint8), (0.5,), (0.5,)),  # type: ignore[arg-type]
    "'irs'": lambda folder: ident3d.score(np.eye(9), np.eye(9), ["IRS"]),
    "mcc_pearson": lambda folder: ident3d.score(np.eye(9), np.eye(9), ["MCC"]),
}


@pytest.mark.parametrize("words", CALLS)
def test_a_wrong_kind_is_named(words: str, folder: Path) -> None:
    with pytest.raises(UserError, match=words):
        CALLS[words](folder)


def test_a_loss_of_one_s_own_that_takes_the_mean_is_refused() -> None:
    settings = ident3d.MixingSettings(dim=2, encoder="8x1", batch=16, steps=1, loss=lambda a, p, n: (a - p).mean())
    with pytest.raises(UserError, match=r"\(16,\).*mean"):
        ident3d.mixing(settings, device="cpu", show_progress=False)


def test_import_of_one_array_says_that_two_are_wanted(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["import", "--arrays", str(tmp_path / "x.npy"), str(tmp_path / "out")])
    assert done.exit_code == 2
    assert all(word in done.output for word in ("IMAGES LATENTS", ".npy", "none"))


def test_differences_are_short() -> None:
    (found,) = differences({"images": "a" * 64}, {"images": "b" * 64})
    assert "aaaaaaaa…" in found
    (found,) = differences({"values": list(range(1000))}, {"values": []})
    assert len(found) < 100


def test_a_report_lists_the_settings_that_its_run_looked_at() -> None:
    world = ident3d.World()
    box, augmented = (with_defaults(TrainSettings(**given), world, 64, 1000) for given in ({}, {"cond": "augment"}))
    assert not {"alpha", "augment", "radius"} & used_settings(box).keys()
    assert {"sigma", "tau", "cond", "seed"} <= used_settings(box).keys(), "seed 0 is a seed"
    assert {"augment", "radius"} <= used_settings(augmented).keys()
    assert "sigma" not in used_settings(augmented)
