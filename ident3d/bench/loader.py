"""How fast pairs come from disk, against one PNG and two single searches at a time, as the papers' code does.

Every variant runs in a separate process, torch on one thread. Ratios are of pairs a CPU-second, which other work on
the machine does not change; in one process the fastest batch counts.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ident3d.bench.loading import MEMORY, Rate, WayToLoad, measure_way
from ident3d.bench.measure import Column, in_own_process, table
from ident3d.bench.opening import Opening, measure_opening
from ident3d.bench.search import SearchCost, measure_searches
from ident3d.errors import UserError
from ident3d.latents.factors import Factors
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.folders.packed import matching_file, pack

WAYS = (
    WayToLoad("PNG + 2 single searches, float", "png", True, 0, None),
    WayToLoad("shards, uint8", "shards", False, 0, 8.0),
    WayToLoad("packed, uint8", "packed", False, 0, 30.0),
    WayToLoad("shards, float", "shards", True, 0, 5.0),
    WayToLoad("packed, float", "packed", True, 0, 8.0),
    WayToLoad("shards, uint8, 2 workers", "shards", False, 2, None),
)


@dataclass(frozen=True)
class LoaderBench:
    """All figures of one run; the first rate is the baseline."""

    images: int
    size: int
    batch: int
    rates: tuple[Rate, ...]
    searches: tuple[SearchCost, ...]
    openings: tuple[Opening, ...]

    def table(self) -> str:
        base = self.rates[0]

        def memory(rate: Rate) -> str:
            goal = "" if rate is base else f" (goal {rate.allowed_mb:,.0f})"
            return f"{rate.peak_mb:,.0f}{goal}"

        def faster(rate: Rate) -> str:
            goal = f" (goal {rate.goal:g})" if rate.goal else ""
            return f"{rate.pairs_per_cpu_second / base.pairs_per_cpu_second:.1f}{goal}"

        columns: list[Column] = [
            ("variant", "{0.variant}"),
            ("pairs/s", "{0.pairs_per_second:,.0f}"),
            ("pairs/CPU-s", "{0.pairs_per_cpu_second:,.0f}"),
            ("times baseline", faster),
            ("peak MB above idle", memory),
        ]
        parts = [
            f"{self.batch} pairs a batch, {self.images:,} images of {self.size}x{self.size}, "
            "all in the page cache: no figure includes a disk",
            table(self.rates, columns),
            MEMORY,
        ]
        # Whether workers pay depends on cores that a busy machine does not have, so both limits are printed.
        none, two = (next(r for r in self.rates if r.variant == v.name) for v in (WAYS[1], WAYS[5]))
        clock = two.pairs_per_second / none.pairs_per_second
        # What two free cores could give: the CPU time of a pair, and twice as many CPU seconds in a second.
        free = 2 * two.mean_pairs_per_cpu_second / none.mean_pairs_per_cpu_second
        parts.append(
            f"2 workers against none, from shards: {clock:.2f} by the clock; two cores with nothing else to do allow "
            f"{free:.2f} (goal 1.4)"
        )
        parts += [SearchCost.table(self.searches)] if self.searches else []
        parts += [Opening.table(self.openings)] if self.openings else []
        return "\n\n".join(parts)


def bench_loader(
    path: Path | str,
    *,
    batch: int = 256,
    batches: int = 8,
    search_images: int = 250_000,
    opening_images: int = 250_000,
) -> LoaderBench:
    """Measure every variant on a finished dataset, which is packed if it is not yet.

    `search_images` latents are searched, and a synthetic dataset of `opening_images` such images is opened; 0 leaves
    that part out. Scratch files go to the system's temporary folder.
    """
    data = ImageDataset(path, packed=False)
    # The papers' way takes pictures in colours, and the large dataset draws latents of its own.
    if isinstance(data.world, Factors):
        raise UserError(f"{path} shows no scene; the loaders are measured on a folder that `ident3d render` made.")
    if batch < 1 or batches < 2:
        raise UserError("The loaders are measured on two batches at least, of one pair at least.")
    # Two of the variants read the packed file.
    if not matching_file(data.parts[0].folder):
        pack(data.parts[0].path)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_pictures(data, folder / "png")
        rates = tuple(
            in_own_process(measure_way, str(data.parts[0].path), str(folder / "png"), v, batch, batches) for v in WAYS
        )
        searches = measure_searches(search_images, folder) if search_images else ()
        openings = measure_opening(data, opening_images, batch, folder) if opening_images else ()
    return LoaderBench(len(data), data.size, batch, rates, searches, openings)


def write_pictures(data: ImageDataset, folder: Path) -> None:
    """Write every image as a PNG file."""
    from PIL import Image

    folder.mkdir()
    for i in range(len(data)):
        Image.fromarray(data.images([i])[0]).save(folder / f"{i}.png")
