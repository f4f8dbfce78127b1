"""What a pair's search costs: exactly by k-d tree or FAISS' flat index, approximately by the papers' index."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray

from ident3d.bench.measure import Shown, least_cpu_seconds, table
from ident3d.latents.draws import draw
from ident3d.latents.world_conditional import world_conditional
from ident3d.latents.worlds import World
from ident3d.loaders.pairs.index_cache import build_index, load_index, stamp
from ident3d.loaders.pairs.sampler import PairSampler
from ident3d.loaders.pairs.search import IVF, IVF_NEEDS, SEARCHES, Neighbours

QUERIES = 4000
# queries whose answers are checked against all distances in float64
CHECKED = 500
# How far from its anchor z̃ is drawn: the work of the k-d tree grows with the distance of the nearest image.
DRAWS: Final[dict[str, tuple[str, float | None]]] = {
    "normal 0.1": ("normal", 0.1),
    "normal 0.5": ("normal", 0.5),
    "marginal": ("uniform", None),
}


@dataclass(frozen=True)
class SearchCost:
    """Seconds to build and, where it is cached, to load; queries a CPU-second; recall against all distances."""

    search: Annotated[str, Shown("search")]
    drawn: Annotated[str, Shown("z̃ drawn")]
    images: int
    build_seconds: Annotated[float, Shown("build s", ".2f")]
    load_seconds: Annotated[float | None, Shown("load s", ".2f")]
    queries_per_cpu_second: Annotated[float, Shown("queries/CPU-s", ",.0f")]
    recall: Annotated[float, Shown("recall", ".4f")]

    @staticmethod
    def table(costs: "Sequence[SearchCost]") -> str:
        title = f"Pair search among {costs[0].images:,} latents (goal: exact at 15,000 queries/CPU-s)"
        return f"{title}\n\n{table(costs)}"


def measure_searches(images: int, scratch: Path) -> tuple[SearchCost, ...]:
    """Measure every search on the latents of `images` images of 3DIdent, with FAISS on one thread."""
    import faiss

    # Rates are per CPU-second, and threads that wait for one another spend them.
    faiss.omp_set_num_threads(1)
    world = World()
    latents = draw(world, seed=0, split="train", start=0, count=images).raw
    samplers = {
        name: PairSampler(latents, world_conditional(world, cond, sigma)) for name, (cond, sigma) in DRAWS.items()
    }
    drawn = {name: sampler.pairs(np.arange(QUERIES)) for name, sampler in samplers.items()}
    # Checked against all distances and not against each other, since two searches could share a mistake.
    truth = {name: by_all_distances(latents, d.drawn[:CHECKED], d.anchor[:CHECKED]) for name, d in drawn.items()}
    costs: list[SearchCost] = []
    for search in SEARCHES:
        # FAISS refuses to train the papers' index on so few points.
        if search == "ivf" and images < IVF_NEEDS:
            continue
        neighbours = Neighbours(latents, search)
        load_seconds = None
        start = time.perf_counter()
        # The cache is left out, since it may hold this index already.
        if search == "ivf":
            index = build_index(latents, IVF)
        else:
            neighbours.build()
        build_seconds = time.perf_counter() - start
        if search == "ivf":
            (scratch / "index").write_bytes(stamp(index))
            start = time.perf_counter()
            load_index(scratch / "index")
            load_seconds = time.perf_counter() - start
        for name, pairs in drawn.items():
            find = partial(neighbours.find, pairs.drawn, other_than=pairs.anchor)
            spent, found = least_cpu_seconds(lambda _, find=find: find(), 3), find()  # type: ignore[misc]
            recall = float((found[:CHECKED] == truth[name]).mean())
            rate = QUERIES / spent
            costs.append(SearchCost(search, name, images, build_seconds, load_seconds, rate, recall))
    return tuple(costs)


def by_all_distances(
    latents: NDArray[np.float32], queries: NDArray[np.float64], other_than: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nearest other row to each query, from all squared differences in float64."""
    points = latents.astype(np.float64)
    found = np.empty(len(queries), np.int64)
    for i, query in enumerate(queries):
        distance = ((points - query) ** 2).sum(axis=1)
        distance[other_than[i]] = np.inf
        found[i] = distance.argmin()
    return found
