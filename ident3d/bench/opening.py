"""How soon a large dataset gives its first batch, and what memory that takes."""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import h5py
import numpy as np

from ident3d.bench.measure import Shown, in_own_process, table
from ident3d.bench.memory import MB, high_water_bytes, resident_bytes
from ident3d.latents.draws import draw
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.lifecycle import begin, finish
from ident3d.loaders.format.description import SHARDS, default_shard_size
from ident3d.loaders.format.files import sha256
from ident3d.loaders.format.latents_source import source_of_seed, world_of
from ident3d.loaders.format.manifest import entry_of, shard_name
from ident3d.loaders.format.shard import Shard, encode_shard
from ident3d.progress import progress_bar


@dataclass(frozen=True)
class Opening:
    """Seconds from the folder's name to the first batch, and MB above the process with torch, without the batch."""

    what: Annotated[str, Shown("first batch of")]
    images: int
    shards: int
    seconds: Annotated[float, Shown("s (goal 1)", ".2f")]
    cpu_seconds: Annotated[float, Shown("CPU-s", ".2f")]
    mb: Annotated[float, Shown("MB beyond torch and batch (goal 200)", ".0f")]

    @staticmethod
    def table(openings: "Sequence[Opening]") -> str:
        title = f"Opening {openings[0].images:,} images in {openings[0].shards:,} shards"
        return f"{title}\n\n{table(openings)}"


def measure_opening(data: ImageDataset, images: int, batch: int, scratch: Path) -> tuple[Opening, ...]:
    """Open a synthetic dataset of `images` images, made of the pictures in `data`, in separate processes."""
    path = scratch / "large"
    make_large(data, images, path)
    shards = len(list((path / SHARDS).iterdir()))
    return tuple(
        Opening(what, images, shards, *in_own_process(first_batch, what, str(path), batch))
        for what in ("ImageDataset", "PairDataset")
    )


def first_batch(what: str, path: str, batch: int) -> tuple[float, float, float]:
    """Return seconds and CPU seconds to the first batch, and the MB that it took."""
    import torch

    import ident3d

    # Torch's own memory is there before anything of ours is measured.
    torch.zeros(1)
    before = resident_bytes()
    # This imports our modules: it is counted in memory, not in time.
    dataset, make_loader = getattr(ident3d, what), ident3d.make_loader
    start, cpu = time.perf_counter(), time.process_time()
    first = next(iter(make_loader(dataset(path), batch, workers=0)))
    seconds, spent = time.perf_counter() - start, time.process_time() - cpu
    tensors = first if what == "ImageDataset" else [tensor for part in first for tensor in part]
    used = high_water_bytes() - before - sum(tensor.nbytes for tensor in tensors)
    return seconds, spent, used / MB


def make_large(data: ImageDataset, images: int, path: Path) -> None:
    """Write a dataset whose shards repeat one shard's pictures, each with its own latents.

    Encoding every shard would take hours. All whole shards have the same layout, so one is encoded, and in a copy for
    each other the bytes of its arrays are replaced.
    """
    size = default_shard_size(data.size)
    count = min(size, images)
    settings = data.parts[0].folder.description.settings | {"source": source_of_seed(0, "train")}
    # A few pictures are repeated: what they show changes neither sizes nor times by much.
    pictures = data.images(np.arange(count) % min(len(data), 64))
    world = world_of(settings)
    latents = draw(world, seed=0, split="train", start=0, count=images)
    shards = -(-images // size)
    description = begin(path, settings, images)

    def shard(first: int, stop: int) -> Shard:
        raw = latents.raw[first:stop]
        classes = None if latents.classes is None else latents.classes[first:stop]
        return Shard(pictures[: stop - first], raw, world.to_scene(raw), np.arange(first, stop), classes)

    whole = shard(0, count)
    plain = encode_shard(whole, settings)
    entry = entry_of(shard_name(0, shards), whole, plain)
    # Where in the file the bytes of each array lie.
    with h5py.File(io.BytesIO(plain), "r") as file:
        places = {name: file[name].id.get_offset() for name in whole.arrays()}
    lines = []
    with progress_bar(images, "synthetic images") as bar:
        for k in range(shards):
            first, stop = k * size, min(images, (k + 1) * size)
            own, name = shard(first, stop), shard_name(k, shards)
            # The last shard may be shorter, and then has another layout.
            if stop - first < count:
                content = encode_shard(own, settings)
                lines.append(entry_of(name, own, content))
            else:
                patched = bytearray(plain)
                for array, offset in places.items():
                    values = own.arrays()[array].tobytes()
                    patched[offset : offset + len(values)] = values
                content = bytes(patched)
                lines.append(replace(entry, name=name, first=first, sha256=sha256(content)))
            (path / SHARDS / name).write_bytes(content)
            bar.update(stop - first)
    finish(path, description, lines)
