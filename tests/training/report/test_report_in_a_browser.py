"""The report in a real browser, wide and narrow, light and dark; screenshots for people to look at."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM
from PIL import Image
from synthetic import make_dataset

from ident3d.training.images.evaluate import evaluate
from ident3d.training.images.settings import TrainSettings
from ident3d.training.images.train import train
from ident3d.training.report.report import write_report

WIDTHS = {"wide": 1200, "narrow": 380}
DARK = "--blink-settings=preferredColorScheme=0"


def screenshot(page: Path, picture: Path, width: int, *options: str) -> np.ndarray:
    """The page as the browser paints it, (H, W, 3)."""
    assert CHROMIUM
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options]
    where = [f"--window-size={width},3600", f"--screenshot={picture}", page.as_uri()]
    subprocess.run([*words, *where], check=True, capture_output=True, timeout=120)
    return np.asarray(Image.open(picture).convert("RGB"))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_the_report_is_painted(tmp_path: Path) -> None:
    make_dataset(tmp_path / "train", 200, size=32)
    make_dataset(tmp_path / "test", 200, size=32, split="test")
    settings = TrainSettings(batch=64, steps=30, lr=1e-3, bound=6.0, space_lr=2e-2, schedule="onecycle")
    run = train(tmp_path / "train", settings, out=tmp_path / "run", workers=0, log_every=2, show_progress=False).path
    evaluate(run, tmp_path / "test", show_progress=False)
    page = write_report(run)
    for name, width in WIDTHS.items():
        light = screenshot(page, tmp_path / f"{name}-light.png", width)
        dark = screenshot(page, tmp_path / f"{name}-dark.png", width, DARK)
        assert light.shape[1] == dark.shape[1] == width
        assert light[0, 0].min() > 230
        assert dark[0, 0].max() < 60
        for shown in (light, dark):
            rows = np.abs(np.diff(shown.astype(int), axis=1)).max((1, 2)) > 30
            assert rows.mean() > 0.3  # something is painted in a good part of the lines
    print(f"Screenshots: {tmp_path}")
