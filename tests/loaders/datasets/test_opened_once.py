"""A folder is opened once: all that is made of an opened one shares it, and its manifest is read once."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_dataset import PairDataset
from ident3d.loaders.datasets.pair_widths import pairs
from ident3d.loaders.folders.folder import open_folder

# Prints how often each of dataset.json and shards.jsonl was opened, as the interpreter's own audit reports it.
COUNTED = """
import sys
from collections import Counter

opened = Counter()

def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith(("dataset.json", "shards.jsonl")):
        opened[str(arguments[0]).rpartition("/")[2]] += 1

sys.addaudithook(note)
from ident3d import ImageDataset, PairDataset, index, make_loader, pairs
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.folders.packed import pack

folder = open_folder(sys.argv[1])
images = ImageDataset(folder)
wanted = images.with_latents(["object_hue", "x"])
couples = PairDataset(wanted, sigma=0.2)
next(iter(make_loader(couples, 4, workers=0)))
pairs(wanted, count=10)
index(images, "exact")
pack(folder, show_progress=False)
assert opened["shards.jsonl"] == opened["dataset.json"], opened
print(opened["shards.jsonl"])
ImageDataset(sys.argv[1])
print(opened["shards.jsonl"])
"""


def test_a_manifest_is_read_once_for_all_that_is_made_of_a_folder(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 40)
    done = subprocess.run([sys.executable, "-c", COUNTED, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "2"]  # the second is that of opening the path again


def test_other_latents_of_the_same_images(tmp_path: Path) -> None:
    images = ImageDataset(open_folder(make_dataset(tmp_path / "set", 40)))
    hue = images.with_latents(["object_hue"])
    assert hue.names == ("object_hue",)
    assert len(images.names) == 10
    index = np.arange(40)
    np.testing.assert_array_equal(hue.latents(index)[:, 0], images.latents(index)[:, images.names.index("object_hue")])
    assert hue.with_latents(None).names == images.names
    with pytest.raises(UserError, match="Did you mean 'object_hue'"):
        images.with_latents(["object_hu"])


def test_pairs_of_opened_images_are_those_of_their_path(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "set", 40)
    images = ImageDataset(path)
    (z, _), (x, _) = PairDataset(path, sigma=0.2, latents=["object_hue"])[:8]
    (z_again, _), (x_again, _) = PairDataset(images, sigma=0.2, latents=["object_hue"])[:8]
    assert z.equal(z_again)
    assert x.equal(x_again)
    assert pairs(images, count=50).as_dict() == pairs(path, count=50).as_dict()
    with pytest.raises(UserError, match="transform"):
        PairDataset(images, packed=False)
