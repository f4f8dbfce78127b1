"""Small datasets of every kind, and their exports."""

from pathlib import Path
from typing import Any

import numpy as np
from synthetic import make_dataset, pictures

import ident3d
from ident3d import Factor
from ident3d.latents.environments import Environment
from ident3d.latents.sequences import Sequences
from ident3d.loaders.folders.folder import open_folder
from ident3d.loaders.format.shard import read_shard

TURN = Factor("turn", "periodic", range=(0, 360))
SHAPE = Factor("shape", "categorical", values=("square", "yes", "heart, broken"))
COUNT = Factor("frame", "categorical", values=(1, 4, 9))  # a name that is also that of a column


def everything(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a dataset, its shards joined."""
    folder = open_folder(path)
    shards = [read_shard(folder.shard_path(entry)) for entry in folder.entries]
    arrays = {name: np.concatenate([shard.arrays()[name] for shard in shards]) for name in shards[0].arrays()}
    return arrays | {"images": np.concatenate([shard.images for shard in shards])}


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def export_to(source: Path, out: Path, to: str, **given: Any) -> Path:
    size = {} if to == "png" else {"part_size": 16}
    return ident3d.export_to(source, out, to, show_progress=False, **size | given).path


def declared(path: Path) -> Path:
    """Grey images with a factor of each kind, classes, sequences and frames."""
    rng, n = np.random.default_rng(0), 37
    z = np.column_stack(
        [rng.uniform(-2, 2, n), rng.uniform(0, 360, n), rng.integers(0, 3, n), rng.choice([1, 4, 9], n)]
    )
    factors = [Factor("size, in mm".replace(",", ""), range=(-2, 2)), TURN, SHAPE, COUNT]
    ident3d.from_arrays(
        pictures(z.astype(np.float32) / 360, 12)[..., 0],
        z,
        path,
        factors=factors,
        classes=["cat" if i % 3 else "dog" for i in range(n)],
        columns={"sequence": np.arange(n) // 5, "frame": np.arange(n) % 5},
        citation='Someone: "A title",\nsomewhere',
        licence="CC BY 4.0",
        shard_size=10,
        show_progress=False,
    )
    return path


def moving(path: Path) -> Path:
    environments = (Environment("plain", {}), Environment("right", {"y": 0.5}))
    return make_dataset(path, 36, sequence=Sequences(3, sigma=0.1), environments=environments)


def causal(path: Path) -> Path:
    return make_dataset(path, 40, scene="causal3dident", classes=7)
