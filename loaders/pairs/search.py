"""Nearest rendered latents, many queries at a time: exactly by a k-d tree, or through FAISS.

`exact` is the default: a k-d tree. In the ten dimensions of these datasets it visits a few thousandths of 250,000
points, and its bounding boxes prove the result. `flat` is FAISS' exact index, which computes all distances, seven to
thirteen times the work (`ident3d bench loader`), on a GPU if FAISS can use one. `ivf` is the papers' approximate index.
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
# The papers' index.
IVF: Final = "IVF1024_HNSW32,Flat"
NPROBE: Final = 10
# How many of the nearest rows are looked at for one of another environment, before the others are searched alone.
NEAREST: Final = (4, 64)
# About 39 points for each list, FAISS' own minimum to train them.
IVF_NEEDS: Final = 40_000

Points: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
# Queries (m, d), k → the k nearest rows, (m, k).
Nearest: TypeAlias = Callable[[NDArray[np.float64], int], Indices]


def effective_search(search: str, n: int) -> str:
    """Return the search to use among n images. `ivf` needs many; with fewer, `exact` is used, with a warning."""
    check_known("search", search, SEARCHES)
    if search == "ivf" and n < IVF_NEEDS:
        warnings.warn(
            f"{IVF} wants {IVF_NEEDS:,} images and there are {n:,}: the exact search is used instead.", stacklevel=2
        )
        return "exact"
    return search


def nearest_among(latents: Points, search: str, circles: Flags | None = None) -> Nearest:
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


def k_d_tree(latents: Points, circles: Flags | None = None) -> Nearest:
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

    With `apart` it is one whose number there is another than that of the given one.

    `circles` says which coordinates go round. Each process builds the index when it first searches. Only the latents
    are pickled.
    """

    def __init__(
        self,
        latents: Points,
        search: str = "exact",
        classes: NDArray[np.integer[Any]] | None = None,
        circles: Flags | None = None,
        apart: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        self.circles = circles if circles is not None and circles.any() else None
        if self.circles is not None and search != "exact":
            raise UserError(f"FAISS knows no latents that go round: use the search exact, not {search}.")
        # With classes, each has an index of its own: the positive is the nearest of its class, however far away.
        groups, labels = [np.arange(len(latents))], classes
        if apart is not None:
            within = np.zeros(len(latents), np.int64) if classes is None else classes
            kinds, of_kind, count = np.unique(
                np.column_stack([within, apart]), axis=0, return_inverse=True, return_counts=True
            )
            # Of each kind, how many images of its class lie apart.
            others = np.array([count[kinds[:, 0] == c].sum() for c in kinds[:, 0]]) - count
            if not others.min(initial=len(latents)):
                alike = "" if classes is None else ", of their class and with their values of categorical factors"
                lonely = int(count[others == 0].sum())
                raise UserError(
                    f"{lonely} of {len(latents)} images have none in another environment{alike}, that a pair could go "
                    "to."
                )
            search = effective_search(search, int(others.min(initial=len(latents))))
            if search != "exact":
                labels = of_kind.ravel()
                groups = [np.flatnonzero((within == c) & (apart != e)) for c, e in kinds]
        # A tree for each environment's others would take memory for all images each time: one tree serves them all.
        if classes is not None and (apart is None or search == "exact"):
            groups = [np.flatnonzero(classes == c) for c in np.unique(classes)]
        if labels is not None:
            search = effective_search(search, min(map(len, groups)))
        self.search = effective_search(search, len(latents))
        if apart is None and min(map(len, groups), default=0) < 2:
            where = "" if classes is None else "of every class, or with equal categorical factors, "
            raise UserError(f"A pair is two different images, so at least two {where}are needed.")
        self.latents, self.classes, self.groups = latents, classes, groups
        self.apart, self._labels = apart, labels
        self._nearest: list[Nearest] | None = None
        self._far: dict[tuple[int, int], tuple[NDArray[np.intp], Nearest]] = {}

    @property
    def on_gpu(self) -> bool:
        """Whether the search runs on a GPU, which a forked process cannot use."""
        return self.search == "flat" and faiss_gpus() > 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_nearest": None, "_far": {}}

    def build(self) -> None:
        """Build or load the index now."""
        if self._nearest is None:
            self._nearest = [nearest_among(self.latents[group], self.search, self.circles) for group in self.groups]

    def find(self, queries: NDArray[np.float64], other_than: Indices | None = None) -> Indices:
        """Return the row nearest to each query (m, d), other than row other_than[i] and, with classes, of its class."""
        self.build()
        assert self._nearest is not None
        result = np.empty(len(queries), np.int64)
        if (self._labels is not None or self.apart is not None) and other_than is None:
            raise ValueError("other_than is needed: it gives the class to search in")
        # Labels are the places of the groups, or what all of a group have in common.
        own = (
            range(len(self.groups))
            if self.apart is not None and self.search != "exact"
            else [0 if self._labels is None else self._labels[g[0]] for g in self.groups]
        )
        for label, group, nearest in zip(own, self.groups, self._nearest, strict=True):
            rows = np.arange(len(queries))
            if self._labels is not None:
                rows = np.flatnonzero(self._labels[other_than] == label)
            if not len(rows):
                continue
            if other_than is None:
                result[rows] = group[nearest(queries[rows], 1)[:, 0]]
                continue
            if self.apart is not None and self.search == "exact":
                result[rows] = self._apart_from(other_than[rows], group, nearest, queries[rows])
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

    def _apart_from(
        self, other_than: Indices, group: NDArray[np.intp], nearest: Nearest, queries: NDArray[np.float64]
    ) -> Indices:
        """Return the row nearest to each query (m, d) among those of the group that lie apart from other_than[i]."""
        assert self.apart is not None
        own, result, pending = self.apart[other_than], np.empty(len(queries), np.int64), np.arange(len(queries))
        for k in (min(k, len(group)) for k in NEAREST):
            found = group[nearest(queries[pending], k)]
            allowed = self.apart[found] != own[pending, None]
            first = allowed.argmax(axis=1)
            has = allowed[np.arange(len(pending)), first]
            result[pending[has]] = found[has, first[has]]
            pending = pending[~has]
            if not len(pending):
                return result
        # Around these there is nothing but their own environment: only now the others are searched by themselves.
        for environment in np.unique(own[pending]).tolist():
            key = int(group[0]), int(environment)
            if key not in self._far:
                others = group[self.apart[group] != environment]
                self._far[key] = others, nearest_among(self.latents[others], "exact", self.circles)
            others, search = self._far[key]
            rows = pending[own[pending] == environment]
            result[rows] = others[search(queries[rows], 1)[:, 0]]
        return result

    def _by_force(self, group: NDArray[np.intp], query: NDArray[np.float64], other_than: int) -> int:
        distance = ((self.latents[group] - query) ** 2).sum(axis=1)
        distance[group == other_than] = np.inf
        return int(group[np.argmin(distance)])
