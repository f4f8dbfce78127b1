"""Bit flips over a dataset folder: each is noticed by verify, and noticed in use or harmless.

By hand: ``make test ARGS='-m slow tests/attack/test_flips.py --flips 5000'``.
"""

from collections import Counter
from pathlib import Path

import numpy as np
from synthetic import make_dataset

from ident3d.errors import UserError
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.packed import pack
from ident3d.loaders.folders.verify import verify
from ident3d.loaders.format.latents_table import TABLE_FILE

N = 12
# What people read, and what has no promise of equal bytes.
BESIDE = ("README.md", "sample.png", "provenance.json")


def flipped_dataset(path: Path) -> Path:
    """A small packed dataset with classes, in three shards."""
    make_dataset(path, N, size=8, shard_size=4, classes=3)
    pack(path, show_progress=False)
    return path


def contents(path: Path, packed: bool | None) -> list[bytes]:
    """All that a reader gets: pixels, and latents with classes, by number and all at once."""
    data = ImageDataset(path, packed=packed)
    raw, classes = data.all_latents()
    assert classes is not None
    images = data.images(np.arange(N)).tobytes()
    # A second dataset, because the first has the table now.
    latents = ImageDataset(path, packed=packed).latents(np.arange(N))
    return [images, latents.tobytes(), raw.tobytes(), classes.tobytes(), repr((data.mean, data.std)).encode()]


def used(path: Path, packed: bool | None, due: list[bytes]) -> str:
    """Return how a reader fares: refused, or harmless because every byte is as it was."""
    try:
        return "harmless" if contents(path, packed) == due else "wrong"
    except UserError:
        return "refused"


def flip_and_use(path: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Flip single bits, one at a time, and undo each; return what became of them, and the failures."""
    due = contents(path, None)
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name not in BESIDE)
    shards = [file for file in files if file.suffix == ".h5"]
    table = (path / TABLE_FILE).read_bytes()
    found: Counter[str] = Counter()
    failures = []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        # Every file comes in turn, so that the small ones are met as often as the large ones.
        file = files[k % len(files)]
        data = bytearray(file.read_bytes())
        place, bit = int(rng.integers(len(data))), int(rng.integers(8))
        data[place] ^= 1 << bit
        whole = file.read_bytes()
        file.write_bytes(data)
        fares = [used(path, None, due), used(path, False, due)]
        # Latents come from the shards only if their table is gone.
        if file in shards:
            (path / TABLE_FILE).unlink()
            fares.append(used(path, False, due))
            (path / TABLE_FILE).write_bytes(table)
        seen = bool(verify(path, show_progress=False).problems)
        file.write_bytes(whole)
        fate = "wrong" if "wrong" in fares else "refused" if "refused" in fares else "harmless"
        found[f"{fate}, {'seen' if seen else 'not seen'} by verify"] += 1
        # A description with the same content is the same description, however its bytes are.
        if fate == "wrong" or not seen:
            failures.append(f"flip {k}: {file.name} byte {place} bit {bit}: {fares}, verify {seen}")
    assert contents(path, None) == due
    return found, failures
