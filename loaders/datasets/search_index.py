"""``index``: build a dataset's search index, keep it in the cache, and measure how fast and how exact it is."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from tabulate import tabulate

from ident3d.latents.world_conditional import world_conditional
from ident3d.loaders.datasets.image_dataset import Folders, ImageDataset
from ident3d.loaders.pairs.index_cache import cached_path
from ident3d.loaders.pairs.sampler import PairSampler
from ident3d.loaders.pairs.search import IVF

# A recall of 0.9 then has a standard error below 0.01.
QUERIES = 2000


@dataclass(frozen=True)
class Indexed:
    """An index that is ready: seconds to build (or load) it, queries a CPU-second, recall against the exact search."""

    search: str
    images: int
    seconds: float
    queries_per_second: float
    recall: float
    file: str | None
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        rows = [
            ("search", self.search),
            ("images", f"{self.images:,}"),
            ("built or loaded in", f"{self.seconds:.2f} s"),
            ("queries a CPU-second", f"{self.queries_per_second:,.0f}"),
            ("recall", f"{self.recall:.3f}"),
            ("kept in", f"{self.file} ({self.bytes / 1e6:.1f} MB)" if self.file else "no file: built when needed"),
        ]
        return tabulate(rows, tablefmt="plain", disable_numparse=True)


def index(images: Folders | ImageDataset, search: str = "ivf") -> Indexed:
    """Build the index of a dataset's latents, or load it from the cache, and try it on pairs of normal σ = 0.1.

    Only `ivf` is kept: building a k-d tree (`exact`) or FAISS' flat index (`flat`) is faster than reading it.

    Args:
        images: A dataset folder, its address, an opened `Folder`, several of them, or an `ImageDataset`.
        search: "exact", "flat" or "ivf".

    Returns:
        An `Indexed`: how long it took, and how often it finds the nearest image.

    Example:
        >>> import ident3d
        >>> found = ident3d.index(dataset, search="exact")
        >>> found.images, found.recall
        (16, 1.0)
    """
    data = images if isinstance(images, ImageDataset) else ImageDataset(images)
    latents, _ = data.all_latents()
    conditional = world_conditional(data.world, "normal")
    sampler = PairSampler(latents, conditional, search=search)
    # Building is waiting, so its time is the clock's. Queries run on one core or many, so theirs is the processor's.
    start = time.perf_counter()
    sampler.build()
    seconds = time.perf_counter() - start
    drawn = sampler.pairs(np.arange(QUERIES))
    start = time.process_time()
    found = sampler.neighbours.find(drawn.drawn, other_than=drawn.anchor)
    spent = time.process_time() - start
    exact = PairSampler(latents, conditional).neighbours.find(drawn.drawn, other_than=drawn.anchor)
    used = sampler.neighbours.search
    path = cached_path(latents, IVF) if used == "ivf" else None
    file = path if path and path.is_file() else None
    return Indexed(
        search=used,
        images=len(latents),
        seconds=seconds,
        queries_per_second=QUERIES / spent,
        recall=float((found == exact).mean()),
        file=str(file) if file else None,
        bytes=file.stat().st_size if file else 0,
    )
