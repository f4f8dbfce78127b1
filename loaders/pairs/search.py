"""Nearest rendered latents, many queries at a time: exactly by a k-d tree, or through FAISS.

`exact` is the default: a k-d tree. In the ten dimensions of these datasets it visits a few thousandths of 250,000
points, and its bounding boxes prove the result. `flat` is FAISS' exact index, which computes all distances, three to
nine times the work (`ident3d bench loader`), on a GPU if FAISS can use one. `ivf` is the papers' approximate index.
"""

import warnings
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ident3d.errors import UserError, check_known
from ident3d.latents import Circle
from ident3d.loaders.pairs.faiss_build import require_faiss
from ident3d.loaders.pairs.index_cache import cached_index

SEARCHES: Final = ("exact", "flat", "ivf")
IVF: Final = "IVF1024_HNSW32,Flat"  # the papers' index
NPROBE: Final = 10
# About 39 points for each list, FAISS' own minimum to train them.
IVF_NEEDS: Final = 40_000

Latents: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Nearest: TypeAlias = Callable[[NDArray[np.float64], int], Indices]  # queries (m, d), k → the k nearest rows, (m, k)


def effective_search(search: str, n: int) -> str:
    """Return the search to use among n images. `ivf` needs many; with fewer, `exact` is used, with a warning."""
    check_known("search", search, SEARCHES)
    if search == "ivf" and n < IVF_NEEDS:
        warnings.warn(
            f"{IVF} wants {IVF_NEEDS:,} images and there are {n:,}: the exact search is used instead.", stacklevel=2
        )
        return "exact"
    return search


def nearest_among(latents: Latents, search: str, circles: Flags | None = None) -> Nearest:
    """Return a function that finds the k rows of `latents` nearest to each query in L2, the shorter way round."""
    if search == "exact":
        return k_d_tree(latents, circles)
    require_faiss()
    import faiss

    index: Any
    if search == "ivf":
        index = cached_index(latents, IVF)
        faiss.extract_index_ivf(index).nprobe = NPROBE
    else:
        index = faiss.IndexFlatL2(latents.shape[1])
        if faiss_gpus():
            index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
        index.add(latents)

    def nearest(queries: NDArray[np.float64], k: int) -> Indices:
        return np.asarray(index.search(np.ascontiguousarray(queries, np.float32), k)[1], np.int64)

    return nearest


def k_d_tree(latents: Latents, circles: Flags | None = None) -> Nearest:
    from scipy.spatial import cKDTree

    # SciPy's circles begin at 0, ours at -1. A box of size 0 is no circle.
    start, turn = (0.0, None) if circles is None else (np.where(circles, Circle.low, 0.0), np.where(circles, 2.0, 0.0))
    tree = cKDTree(latents.astype(np.float64) - start, leafsize=16, boxsize=turn)

    def nearest(queries: NDArray[np.float64], k: int) -> Indices:
        return np.asarray(tree.query(queries - start, k=range(1, k + 1))[1], np.int64)

    return nearest


def faiss_gpus() -> int:
    """Return how many GPUs FAISS can use."""
    require_faiss()
    import faiss

    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


class Neighbours:
    """Finds for each query the nearest rendered latent other than a given one; if `classes` are given, of its class.

    `circles` says which coordinates go round. Each process builds the index when it first searches. Only the latents
    are pickled.
    """

    def __init__(
        self,
        latents: Latents,
        search: str = "exact",
        classes: NDArray[np.integer[Any]] | None = None,
        circles: Flags | None = None,
    ) -> None:
        self.circles = circles if circles is not None and circles.any() else None
        if self.circles is not None and search != "exact":
            raise UserError(f"FAISS knows no latents that go round: use the search exact, not {search}.")
        # With classes, each has an index of its own: the positive is the nearest of its class, however far away.
        groups = [np.arange(len(latents))]
        if classes is not None:
            groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
            search = effective_search(search, min(map(len, groups)))
        self.search = effective_search(search, len(latents))
        if min(map(len, groups), default=0) < 2:
            where = "" if classes is None else "of every class, or with equal categorical factors, "
            raise UserError(f"A pair is two different images, so at least two {where}are needed.")
        self.latents, self.classes, self.groups = latents, classes, groups
        self._nearest: list[Nearest] | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether the search runs on a GPU, which a forked process cannot use."""
        return self.search == "flat" and faiss_gpus() > 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_nearest": None}

    def build(self) -> None:
        """Build or load the index now."""
        if self._nearest is None:
            self._nearest = [nearest_among(self.latents[group], self.search, self.circles) for group in self.groups]

    def find(self, queries: NDArray[np.float64], other_than: Indices | None = None) -> Indices:
        """For each query (m, d) the nearest row, other than row other_than[i] and, with classes, of its class."""
        self.build()
        assert self._nearest is not None
        result = np.empty(len(queries), np.int64)
        if self.classes is not None and other_than is None:
            raise ValueError("other_than is needed: it gives the class to search in")
        for group, nearest in zip(self.groups, self._nearest, strict=True):
            rows = np.arange(len(queries))
            if self.classes is not None:
                rows = np.flatnonzero(self.classes[other_than] == self.classes[group[0]])
            if not len(rows):
                continue
            if other_than is None:
                result[rows] = group[nearest(queries[rows], 1)[:, 0]]
                continue
            # Two are asked for, as the nearest may be the anchor itself. An approximate search may find fewer, and
            # returns -1; such a query is searched again among all points.
            found = nearest(queries[rows], 2)
            indices = np.where(found < 0, -1, group[found])
            taken = np.where((indices[:, 0] == other_than[rows]) | (indices[:, 0] < 0), indices[:, 1], indices[:, 0])
            for row in np.flatnonzero(taken < 0):
                taken[row] = self._by_force(group, queries[rows[row]], int(other_than[rows[row]]))
            result[rows] = taken
        return result

    def _by_force(self, group: NDArray[np.intp], query: NDArray[np.float64], other_than: int) -> int:
        distance = ((self.latents[group] - query) ** 2).sum(axis=1)
        distance[group == other_than] = np.inf
        return int(group[np.argmin(distance)])
