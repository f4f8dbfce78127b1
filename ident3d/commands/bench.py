"""``ident3d bench``: each benchmark measures figures that the docs name, against a baseline of the same run."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ident3d.cli import Commands
from ident3d.commands.options import Sectioned, dataset_argument, option, options
from ident3d.commands.output import show
from ident3d.commands.parameters import names, numbers
from ident3d.commands.recipe_options import recipe_of, recipe_options


# Each measurement is imported by its own command: some need bpy, others torch or FAISS.
@click.group(cls=Commands)
def bench() -> None:
    """Measure what the docs claim.

    Every figure comes with a baseline measured in the same run.
    """


@bench.command()
@options(
    option("--images-per-class", "images", default=12, help="Images of each class to render."),
    "--quality",
    option("--size", default=224),
    "--json",
)
def classes(as_json: bool, **given: Any) -> None:
    """Measure what an image of each class of Causal-3DIdent costs next to one of the teapot."""
    from ident3d.bench.classes import bench_classes

    show(bench_classes(**given), as_json)


@bench.command(cls=Sectioned)
@recipe_options
@options(
    option("--worker-counts", type=numbers(int), default="1,2", help="Numbers of workers to compare."),
    option("--images-per-worker", default=60, help="Images that each worker renders."),
    option("--compare", is_flag=True, help="Compare with plain processes, and with the workers of a scheduler."),
    "--json",
    section="Measurement",
)
def farm(worker_counts: tuple[int, ...], images_per_worker: int, compare: bool, as_json: bool, **recipe: Any) -> None:
    """Measure how the render farm scales with workers, and whether a worker's memory stays flat."""
    from ident3d.bench.farm import bench_farm

    found = bench_farm(recipe_of(recipe), workers=worker_counts, images=images_per_worker, scheduler=compare)
    show(found, as_json)


@bench.command()
@dataset_argument
@options(
    option("--batch", default=256),
    option("--batches", default=8, help="Batches to measure for each line of the table."),
    option("--search-images", default=250_000, help="Latents to search among; 0 for no search."),
    option("--opening-images", default=250_000, help="Images of the dataset to open; 0 for none."),
    "--json",
)
def loader(directory: Path | str, as_json: bool, **given: Any) -> None:
    """Measure loading of pairs against one PNG at a time, the pair search, and the opening of a large dataset.

    Packs the dataset if it is not packed. The large dataset is synthetic and is written to the temporary folder: 6 GB
    for 250,000 images of 224x224.
    """
    from ident3d.bench.loader import bench_loader

    show(bench_loader(directory, **given), as_json)


@bench.command()
@options(option("--batch", "pairs", default=4096), option("--dim", default=10), "--threads", "--repeats", "--json")
def losses(as_json: bool, **given: Any) -> None:
    """Measure time and memory of the contrastive losses against the form that holds all differences at once."""
    from ident3d.bench.losses import bench_losses

    show(bench_losses(**given), as_json)


@bench.command()
@options(
    option("--shrink", default=1, type=click.IntRange(1, 100), help="Divide the number of rows by this."), "--json"
)
def metrics(shrink: int, as_json: bool) -> None:
    """Measure the scores' CPU seconds, and how many times a straightforward computation takes.

    Takes a few minutes; the limits are those of the full size.
    """
    from tqdm import tqdm

    from ident3d.bench.measure import table
    from ident3d.bench.metrics import score_costs

    # disable=None: no bar if standard error is not a terminal.
    measured = list(tqdm(score_costs(shrink), unit="figure", disable=None))
    show([asdict(figure) for figure in measured], as_json, table(measured, style="simple"))


@bench.command()
@options(
    option("--batch", default=6144),
    option("--dim", default=10),
    option("--encoder", default="papers", metavar="[papers|256x4|100,500x4,100]"),
    option("--steps", default=3),
    "--threads",
    "--json",
)
def mixing(as_json: bool, **given: Any) -> None:
    """Measure a step on mixed latents against the loop that holds all B×B×d differences, on the CPU.

    The fastest step of each loop counts.
    """
    from ident3d.bench.mixing import bench_mixing

    show(bench_mixing(**given), as_json)


@bench.command()
@dataset_argument
@options(
    option("--batch", default=256),
    option("--batches", default=50, help="Batches to measure for each line of the table."),
    "--json",
)
def pairs(directory: Path | str, as_json: bool, **given: Any) -> None:
    """Measure the pair rules grid and time against a plain loop that makes one pair at a time.

    DIR has a full grid of factors, or sequences. It is packed if it is not yet.
    """
    from ident3d.bench.pairs import bench_pairs

    show(bench_pairs(directory, **given), as_json)


@bench.command()
@options(
    option("--scene", default="3dident"),
    "--factors",
    "--mesh",
    option("--scenes", default=8, help="How many scenes to render in every preset."),
    option("--qualities", type=names(), default="reference,standard,draft", help="The presets to compare."),
    option("--size", default=224),
    option(
        "--pictures",
        type=click.Path(path_type=Path),
        help="Compare with the pictures of this folder (raw_latents.npy, 00.png, 01.png, …) instead of 1024 samples.",
    ),
    "--json",
)
def render(
    scene: str, factors: Path | None, meshes: tuple[tuple[str, str], ...], scenes: int, qualities: tuple[str, ...],
    size: int, pictures: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Measure each quality preset's cost and error.

    The same scenes are rendered in every preset by one thread, and once with 1024 samples, without denoising and with
    other noise, as the truth. That takes some minutes: most of it is the truth and `reference`.
    """
    from ident3d.bench.render import bench_render, given_pictures
    from ident3d.commands.recipe_options import own_scene_of
    from ident3d.errors import UserError
    from ident3d.latents.worlds import World

    world = own_scene_of(scene, factors, meshes) or World(scene)
    if pictures is not None and world != World():
        raise UserError("--pictures are of 3dident; another scene is compared with 1024 samples.")
    # Pictures come with the truth, which saves its rendering.
    if pictures is None:
        show(bench_render(scenes=scenes, qualities=qualities, size=size, world=world), as_json)
        return
    latents, truth = given_pictures(pictures)
    show(bench_render(scenes=latents, qualities=qualities, size=truth.shape[1], truth=truth), as_json)


@bench.command()
@options(
    option("--shards", default=10_000, help="Shards to hand out."),
    option("--images-per-shard", default=4, help="Stub images in each shard."),
    option("--workers", default=2),
    option("--listed", default=1_000_000, help="Shards in the largest manifest."),
    "--json",
)
def scale(as_json: bool, **given: Any) -> None:
    """Measure the farm at a cluster's scale, with stub images.

    A real scheduler hands out thousands of shards; the run is interrupted in the middle and resumed.
    """
    from ident3d.bench.scale import bench_scale

    show(bench_scale(**given), as_json)


@bench.command()
@dataset_argument
@options(option("--n", "images", default=64), "--json")
def shards(directory: Path | str, images: int, as_json: bool) -> None:
    """Measure what a stored image costs under each HDF5 filter: bytes, encoding and decoding."""
    from ident3d.bench.shards import bench_shards

    show(bench_shards(directory, images=images), as_json)


@bench.command()
@dataset_argument
@options(
    option("--batch", default=64),
    option("--steps", default=6),
    "--threads",
    option(
        "--encoder",
        default="resnet18",
        metavar="[conv|higgins|locatello|resnet18|resnet34|resnet50|package.module:name]",
    ),
    "--json",
)
def train(directory: Path | str, as_json: bool, **given: Any) -> None:
    """Measure a training step of the default loop against the plain loop of the public code, on the CPU.

    The fastest step of each loop counts. Parts of a step are measured apart: the encoder's own passes, pair search,
    loading, the rest. With several --threads the clock of a step is compared with that of one thread. --encoder takes
    what `train` takes, such as resnet18+flat.
    """
    from ident3d.bench.train import bench_train

    found = bench_train(directory, **given)
    shares = {name: getattr(found, name) for name in ("faster", "loader_share", "rest_share", "speedup")}
    show(found, as_json, **shares)
