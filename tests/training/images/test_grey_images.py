"""Augmentations of grey images: colour is refused, and simclr does what can be done to grey."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from ident3d.cli import main
from ident3d.loaders.layouts.arrays import from_arrays
from ident3d.training.views.augmentations import augment
from ident3d.training.views.choice import OF_COLOUR, SINGLE, augmentation

TINY = ["--encoder", "16", "--dim", "2", "--batch", "8", "--steps", "1", "--size", "8", "--dtype", "fp32"]
TINY += ["--device", "cpu", "--workers", "0"]


@pytest.fixture(scope="module")
def grey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    images = np.random.default_rng(0).integers(256, size=(16, 16, 16, 1), dtype=np.uint8)
    path = tmp_path_factory.mktemp("own") / "grey"
    from_arrays(images, None, path, workers=1, show_progress=False)
    return path


@pytest.mark.parametrize("names", ["colour", "crop-medium+colour"])
def test_colour_is_refused_before_anything_is_written(grey: Path, tmp_path: Path, names: str) -> None:
    out = tmp_path / "run"
    words = ["train", str(grey), "--cond", "augment", "--augment", names, *TINY, "--out", str(out)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2, result.output
    started, *said = result.stderr.splitlines()
    assert str(grey) in started
    assert len(said) == 1
    assert "--augment colour" in said[0]
    assert list(tmp_path.iterdir()) == []


def test_simclr_is_trained(grey: Path, tmp_path: Path) -> None:
    words = ["train", str(grey), "--cond", "augment", "--augment", "simclr", *TINY, "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output


def test_steps_of_colour_leave_grey_images_and_the_others_of_simclr_do_not() -> None:
    x = torch.rand(8, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    for name, how in SINGLE.items():
        moved = (augment(x, how, torch.Generator().manual_seed(1)) - x).abs().amax((1, 2, 3))
        # A blur may be drawn too narrow to be seen.
        assert (moved < 1e-5).all() if name in OF_COLOUR else (moved > 1e-3).sum() > 4, name
    view = augment(x, augmentation("simclr"), torch.Generator().manual_seed(2))
    coloured = augment(x.expand(-1, 3, -1, -1), augmentation("simclr"), torch.Generator().manual_seed(2))
    torch.testing.assert_close(view.expand(-1, 3, -1, -1), coloured)
