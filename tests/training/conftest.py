"""What the tests of training share: a data root with a run."""

from pathlib import Path

import pytest
from synthetic import make_dataset

from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train

SETTINGS = TrainSettings(encoder="tiny:plain", batch=32, steps=3)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with a training set, a test set and a run."""
    root = tmp_path_factory.mktemp("root")
    make_dataset(root / "train", 80)
    make_dataset(root / "test", 70, split="test")
    train(root / "train", SETTINGS, out=root / "run", workers=0, show_progress=False, device="cpu")
    return root
