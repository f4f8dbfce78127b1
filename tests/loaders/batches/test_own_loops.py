"""The how-to page on own loops, run as it stands: each library gives the encoder the right images at each step."""

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from synthetic import make_dataset

from ident3d.loaders.batches.loader import make_loader
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset

# They are imported by the processes that run them alone.
LIBRARIES = ("lightning", "accelerate", "transformers")
pytestmark = pytest.mark.skipif(not all(map(find_spec, LIBRARIES)), reason=f"not installed: some of {LIBRARIES}")

SCRIPT = Path(__file__).parents[2] / "own_loops.py"
# The images, by their sums, of one call of the encoder after another.
Calls: TypeAlias = list[list[float]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loops")
    make_dataset(path / "train", 60)
    make_dataset(path / "test", 40, split="test")
    return path


def start(folder: Path, *words: object) -> "subprocess.Popen[str]":
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(SCRIPT), str(folder), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def calls_of(process: "subprocess.Popen[str]") -> dict[str, Calls]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    found: dict[str, Calls] = json.loads(out.splitlines()[-1])
    return found


def names(images: torch.Tensor) -> list[float]:
    found: list[float] = images.long().sum((1, 2, 3)).tolist()
    return found


def epochs_of(folder: Path, batch: int) -> list[Calls]:
    """Two epochs of pairs: anchors and positives of each batch in turn."""
    loader: Any = make_loader(PairDataset(folder / "train"), batch, workers=0)
    return [[names(view) for _, views in loader for view in views] for _ in range(2)]


def held_out_images(folder: Path, batch: int) -> Calls:
    return [names(x) for _, x in make_loader(ImageDataset(folder / "test"), batch, workers=0, shuffle=False)]


def test_the_page_runs_and_gives_each_library_the_right_images(folder: Path) -> None:
    found = calls_of(start(folder))
    (first, second), held_out = epochs_of(folder, 8), held_out_images(folder, 16)
    assert len(first) == 14
    assert len(held_out) == 3
    for name in ("plain", "peeked", "accelerate", "workers", "trainer"):
        assert found[name] == [*first, *second], name
    # The sanity check takes two batches.
    assert found["lightning"] == [*held_out[:2], *first, *held_out, *second, *held_out, *held_out]
    assert found["predicted"] == held_out
    # After step 10 of 14, which is the third of the second epoch.
    assert found["resumed"] == [*first, *second, *second[6:]]


def test_two_processes_have_the_pairs_of_one(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [calls_of(process) for process in [start(folder, rank, port) for rank in range(2)]]
    pairs, held_out = list(chain(*epochs_of(folder, 16))), held_out_images(folder, 32)
    steps = len(pairs) // 2
    assert joint(ranks, "accelerate") == list(map(sorted, pairs))
    wanted = [*held_out, *pairs[:steps], *held_out, *pairs[steps:], *held_out]
    assert joint(ranks, "lightning") == list(map(sorted, wanted))


def joint(ranks: list[dict[str, Calls]], name: str) -> Calls:
    """What the ranks saw together at each call. None saw what the other did."""
    return [sorted(a + b) for a, b in zip(*(rank[name] for rank in ranks), strict=True)]
