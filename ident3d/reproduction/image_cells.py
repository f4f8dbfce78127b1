"""Cells on images: what a cell needs is rendered, and it is trained, scored and written down."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from ident3d.errors import UserError
from ident3d.farm.recipe import Recipe, source_of_recipe
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_widths import realised_pairs
from ident3d.loaders.folders.folder import is_dataset
from ident3d.loaders.format.description import read_description
from ident3d.loaders.pairs.sampler import PairSampler
from ident3d.loaders.stores.lease import Busy
from ident3d.memory import keep_memory
from ident3d.metrics.scoring import choose_scores
from ident3d.reproduction.autoencoder import autoencoder_facts
from ident3d.reproduction.cells import Cell, CellEvent, CellStatus, write_result
from ident3d.reproduction.image_table import SCORE_BY_LATENT, by_latent, figures_of
from ident3d.reproduction.readout_cells import readout_figures
from ident3d.training.experiments.experiment import Experiment, ImageVariant
from ident3d.training.images.by_protocol import ProtocolEvaluation, evaluate_by_protocol
from ident3d.training.images.defaults import with_defaults
from ident3d.training.images.evaluate import evaluate, identity_r2
from ident3d.training.images.run import Run, new_encoder
from ident3d.training.images.settings import TrainSettings, moving_latents
from ident3d.training.images.train import train
from ident3d.training.loop.devices import circumstances, device_of, on_device
from ident3d.training.loop.dtype import choose_dtype, seconds_of_pass
from ident3d.training.loop.log_file import BY_LATENT, read_log
from ident3d.training.loop.run_folder import hold_folder
from ident3d.training.losses.choice import VARIATIONAL
from ident3d.training.report.report import write_report
from ident3d.training.report.tables import duration

# Validation images are of the split test, whose latents share nothing with the training set's, and of another seed.
VALIDATION_SEED: Final = 1
WIDTH_PAIRS: Final = 5000  # drawn to measure how wide the pairs of a row turned out
# A decoder has as many weights as its encoder; a step with it took 104 ms where one without it took 36.
WITH_DECODER: Final = 3


def recipe_of(variant: ImageVariant, split: str) -> Recipe:
    assert isinstance(variant.world, World)
    if split == "validation":
        return Recipe(variant.world, split="test", seed=VALIDATION_SEED, size=variant.size)
    return Recipe(variant.world, split=split, size=variant.size)


def splits(variant: ImageVariant) -> tuple[str, str]:
    """Return the split to train on and the one to score on."""
    return "train", variant.scored


def dataset_path(variant: ImageVariant, split: str, base: Path) -> Path:
    """Return the folder of a variant's images: a user's own, or the one that `ident3d render` writes."""
    if variant.folders:
        if split not in variant.folders:
            raise UserError(f"The table names no folder for {split} of {variant.name}.")
        return variant.folders[split]
    recipe = recipe_of(variant, split)
    return base / recipe.name(variant.count(split), source_of_recipe(recipe))


def is_complete(path: Path) -> bool:
    return is_dataset(path) and read_description(path).complete


def dataset(variant: ImageVariant, split: str, base: Path, show_progress: bool) -> Path:
    """Return the folder of a variant's images, rendered now if they are not there."""
    path = dataset_path(variant, split, base)
    if not is_complete(path):
        # Imported here: a table whose images are there needs neither Blender nor Dask.
        from ident3d.farm.render import render

        done = render(variant.count(split), recipe_of(variant, split), out=path, show_progress=show_progress)
        if not done.complete:
            raise UserError(f"Not all images of {path} were rendered; the same command goes on with the rest.")
    return path


def estimate(cells: Sequence[Cell[ImageVariant]], base: Path, device: str) -> list[str]:
    """Say what is left to do: images to render, and hours of training judged by one pass of each encoder and size.

    Data sets that are generated, in minutes, are not counted; their folders need not be there yet.
    """
    wanted = {
        dataset_path(c.variant, split, base): 0 if c.variant.folders else c.variant.count(split)
        for c in cells
        for split in splits(c.variant)
    }
    images = sum(count for path, count in wanted.items() if not is_complete(path))
    trained = [cell for cell in cells if cell.row.change is not None]
    hours, known = 0.0, dict[tuple[str, str, int | None], float]()
    for cell in trained:
        s, variant = settings_of(cell), cell.variant
        kind = variant.name, s.encoder, s.size
        if kind not in known:
            known[kind] = seconds_per_image(s, variant, device)
        seconds = known[kind] * (WITH_DECODER if s.loss in VARIATIONAL else 1)
        # A run that was interrupted goes on where it stopped, so only the rest is counted.
        done = max((line["step"] for line in read_log(cell.folder)), default=0)
        # A step encodes every view of each pair.
        hours += max(0, s.steps - done) * s.batch * s.views * seconds / 3600
    first = f"{images:,} images to render first; `ident3d render --dry-run` says how long that takes."
    left = f"{len(cells)} row{'s' * (len(cells) != 1)} to do"
    rows = f"{left}; about {duration(hours * 3600)} of training for {len(trained)} of them here."
    return [first, rows] if images else [rows]


def seconds_per_image(s: TrainSettings, variant: ImageVariant, device: str) -> float:
    """Return the seconds that one image takes in a training step, measured on a small batch."""
    keep_memory()
    where, count = device_of(device), 16
    model = on_device(new_encoder(s, variant.world, variant.channels), where)
    images = torch.randn(count, variant.channels, s.size or 1, s.size or 1, device=where)
    images = images.to(memory_format=torch.channels_last)
    dtype, _ = choose_dtype(s.dtype, model, images)
    # On a CPU the pass is timed by process time, which counts every thread.
    threads = torch.get_num_threads() if where.type == "cpu" else 1
    return seconds_of_pass(model, images, dtype) / count / threads


def settings_of(cell: Cell[ImageVariant]) -> TrainSettings:
    """Return a cell's settings with every default decided."""
    variant = cell.variant
    return with_defaults(variant.settings_of(cell.row, cell.seed), variant.world, variant.size, variant.train)


def depends_on(cell: Cell[ImageVariant]) -> dict[str, Any]:
    """Return what a cell's figures depend on: images, settings of what is trained on them, a VAE to score by."""
    v = cell.variant
    images = {"train": v.train, "test": v.test, "size": v.size, "world": v.world.as_dict()}
    # Tables of the test set are of before there was a choice.
    if v.scored != "test":
        images["scored"] = v.scored
    if v.fraction != 1:
        images["fraction"] = v.fraction
    if v.folders:
        folders = {split: dataset_path(v, split, Path()) for split in splits(v)}
        images["sha256"] = {split: read_description(folder).shards_sha256 for split, folder in folders.items()}
    settings = {} if cell.row.change is None else {"settings": settings_of(cell).as_dict()}
    return {"images": images, **settings, **autoencoder_facts(v, cell.folder.parents[1])}


def run_cells(
    experiment: Experiment, cells: Sequence[Cell[ImageVariant]], base: Path, device: str, show_progress: bool
) -> Iterator[CellEvent]:
    """Finish the cells one after another, each on all that the machine has, and yield what becomes of each."""
    for cell in cells:
        # Another process may have finished it since this one made its list.
        if cell.done:
            continue
        yield CellEvent(cell, CellStatus.STARTED)
        # Outside the try: images that cannot be rendered end the table, because later rows need them too.
        trained, scored = (dataset(cell.variant, split, base, show_progress) for split in splits(cell.variant))
        try:
            if cell.row.change is None:
                run_identity(cell, scored)
            else:
                run_cell(experiment, cell, trained, scored, device, show_progress)
        except Busy as error:
            yield CellEvent(cell, CellStatus.BUSY, str(error))
        else:
            yield CellEvent(cell, CellStatus.FINISHED)


def run_identity(cell: Cell[ImageVariant], scored: Path) -> None:
    """Score the pixels themselves, without an encoder, and write the result."""
    start = time.perf_counter()
    images = ImageDataset(scored, latents=moving_latents(cell.variant.world))
    figures = {"R²": identity_r2(images, seed=cell.seed)}
    cell.folder.mkdir(parents=True, exist_ok=True)
    facts = depends_on(cell) | {"pixels": "least squares of least norm"} | circumstances(torch.device("cpu"))
    write_result(cell, figures, time.perf_counter() - start, facts)


def run_cell(
    experiment: Experiment, cell: Cell[ImageVariant], trained: Path, scored: Path, device: str, show_progress: bool
) -> None:
    """Train and score one row, and write the result; a run that was interrupted goes on."""
    settings = cell.variant.settings_of(cell.row, cell.seed)
    options: dict[str, Any] = {"device": device, "show_progress": show_progress}
    run = train(trained, settings, out=cell.folder, resume=cell.folder.exists(), **options)
    # Training has let go of the folder, and another process may take the trained run up, score it or clear it up.
    with hold_folder(cell.folder):
        if not cell.done:
            score_cell(experiment, cell, run, trained, scored, **options)


def score_cell(
    experiment: Experiment, cell: Cell[ImageVariant], run: Run, trained: Path, scored: Path, **options: Any
) -> None:
    """Score a trained row and write its result; the row's folder is held."""
    settings = cell.variant.settings_of(cell.row, cell.seed)
    detail: dict[str, Any] = {}
    if experiment.protocol:
        found, by_paper = by_protocol(experiment, cell, run, scored, **options)
        write_report(run, by_paper)
    elif experiment.readout:
        found = readout_figures(experiment, cell, run, trained, scored, **options)
        write_report(run)
    else:
        evaluation = evaluate(run, scored, encoder=settings.encoder, metrics=metrics_of(experiment), **options)
        write_report(run, evaluation)
        found = figures_of(experiment, evaluation.report)
        if SCORE_BY_LATENT in {name for name, _ in experiment.scores.values()}:
            detail = {BY_LATENT: by_latent(evaluation.report, SCORE_BY_LATENT)}
    log = read_log(run.path)
    seconds, cpu = (sum(line.get(name, 0.0) for line in log) for name in ("seconds", "cpu_seconds"))
    facts = depends_on(cell) | {"dtype": run.dtype, **run.facts, **detail}
    facts |= {"widths": pair_widths(run), "cpu_seconds": cpu}
    if log and "precision_min" in log[-1]:
        facts["learnt_lambda"] = [log[-1]["precision_min"], log[-1]["precision_max"]]
    # Last: the result's file says that all before it was done.
    write_result(cell, found, seconds, facts)


def by_protocol(
    experiment: Experiment, cell: Cell[ImageVariant], run: Run, images: Path, **options: Any
) -> tuple[dict[str, float], ProtocolEvaluation]:
    """Score a run by the table's protocol; return the figures that the paper prints of its row, and the codes."""
    scores = {column: name for column, (name, _) in experiment.scores.items() if column in cell.row.paper}
    evaluation = evaluate_by_protocol(
        run, experiment.protocol, images, metrics=list(scores.values()), fraction=cell.variant.fraction,
        encoder=run.settings.encoder, **options,
    )  # fmt: skip
    return {column: float(evaluation.found.scores[name]) for column, name in scores.items()}, evaluation


def metrics_of(experiment: Experiment) -> str:
    """Return what the columns need: the default scores, which the report shows, or all."""
    usual, _ = choose_scores("default")
    return "default" if {name for name, _ in experiment.scores.values()} <= set(usual) else "all"


def pair_widths(run: Run) -> dict[str, float | None]:
    """Return by latent the mean |z̃ - z| of matched pairs over the mean asked for, None for a latent that is held."""
    # Rules other than nearest ask for no width.
    if run.pairs is None or not isinstance(run.pairs.sampler, PairSampler):
        return {}
    found = realised_pairs(run.pairs.sampler, run.world.names, WIDTH_PAIRS)
    columns = zip(found.names, found.asked_mean, found.realised_mean, strict=True)
    return {name: round(got / asked, 3) if asked else None for name, asked, got in columns}
