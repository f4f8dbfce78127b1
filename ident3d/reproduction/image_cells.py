"""The image experiments: what a cell needs is rendered, and it is trained, scored and written down."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ident3d.errors import UserError
from ident3d.farm.recipe import Recipe
from ident3d.latents.worlds import World
from ident3d.loaders.datasets.image_dataset import ImageDataset
from ident3d.loaders.datasets.pair_widths import pairs
from ident3d.loaders.folders.folder import is_dataset, read_description
from ident3d.loaders.format.latents_source import drawn
from ident3d.loaders.stores.lease import Busy
from ident3d.memory import keep_memory
from ident3d.reproduction.cells import LEFT, Cell, Say, finish
from ident3d.training.experiments import experiment as experiments
from ident3d.training.experiments.experiment import Data, Experiment
from ident3d.training.images.evaluate import evaluate
from ident3d.training.images.identity import identity_r2
from ident3d.training.images.run import new_encoder
from ident3d.training.images.settings import Settings, moving_latents, with_defaults
from ident3d.training.images.setup import pairing
from ident3d.training.images.train import train
from ident3d.training.loop.devices import circumstances, device_of, on_device
from ident3d.training.loop.dtype import choose_dtype, seconds_of_pass
from ident3d.training.loop.log import read_log
from ident3d.training.report.report import read_scores, write_report

WIDTH_PAIRS = 5000


def dataset_path(data: Data, split: str, base: Path) -> Path:
    recipe, n = Recipe(data.world, split=split, size=data.size), data.train if split == "train" else data.test
    return base / recipe.name(n, drawn(recipe.seed, split))


def is_complete(path: Path) -> bool:
    return is_dataset(path) and read_description(path).complete


def dataset(data: Data, split: str, base: Path, show_progress: bool) -> Path:
    """The folder of a world's images, rendered now if they are not there."""
    path = dataset_path(data, split, base)
    if not is_complete(path):
        from ident3d.farm.render import render

        n = data.train if split == "train" else data.test
        done = render(n, Recipe(data.world, split=split, size=data.size), out=path, show_progress=show_progress)
        if not done.complete:
            raise UserError(f"{path} could not be rendered whole; the same command tries again.")
    return path


def estimate(cells: Sequence[Cell[Data]], base: Path, device: str) -> list[str]:
    """What is left to do: images to render, and hours of training judged by one pass of each world's encoder."""
    wanted = {dataset_path(c.data, split, base): c.data for c in cells for split in ("train", "test")}
    missing = {path: data for path, data in wanted.items() if not is_complete(path)}
    images = sum(data.test if "-test-" in path.name else data.train for path, data in missing.items())
    said = (
        [f"{images:,} images to render first; `ident3d render --dry-run` says how long that takes."] if images else []
    )
    hours, known = 0.0, {}
    for cell in cells:
        if cell.row.change is None:
            continue
        s = with_defaults(settings_of(cell), cell.data.world, cell.data.size, cell.data.train)
        if cell.world not in known:
            known[cell.world] = seconds_per_image(s, cell, device)
        views = 1 if s.supervised else 2
        done = max((line["step"] for line in read_log(cell.folder)), default=0)
        hours += max(0, s.steps - done) * s.batch * views * known[cell.world] / 3600
    trained = sum(cell.row.change is not None for cell in cells)
    return [*said, f"{len(cells)} rows to do; about {hours:.1f} hours of training for {trained} of them here."]


def seconds_per_image(s: Settings, cell: Cell[Data], device: str) -> float:
    """Seconds that one image takes in a training step, measured on a small batch."""
    keep_memory()
    where, count = device_of(device), 16
    model = on_device(new_encoder(s, cell.data.world), where)
    images = torch.randn(count, 3, s.size or 1, s.size or 1, device=where).to(memory_format=torch.channels_last)
    dtype, _ = choose_dtype(s.dtype, model, images)
    threads = torch.get_num_threads() if where.type == "cpu" else 1  # process time counts every thread
    return seconds_of_pass(model, images, dtype) / count / threads


def asked_for(cell: Cell[Data]) -> dict[str, Any]:
    """What a cell's figures depend on: the images, and the settings of what is trained on them."""
    d = cell.data
    images = {"train": d.train, "test": d.test, "size": d.size, "world": d.world.as_dict()}
    if cell.row.change is None:
        return {"images": images}
    return {"images": images, "settings": with_defaults(settings_of(cell), d.world, d.size, d.train).as_dict()}


def settings_of(cell: Cell[Data]) -> Settings:
    return cell.data.settings_of(cell.row, cell.seed)


def run_cells(
    experiment: Experiment, cells: Sequence[Cell[Data]], base: Path, device: str, say: Say, show_progress: bool
) -> Iterator[Cell[Data]]:
    """Finish the cells one after another, each on all that the machine has; gives each that is finished."""
    for number, cell in enumerate(cells, 1):
        if cell.done:
            continue  # by another process, since this one began
        say(f"[{number}/{len(cells)}] {cell.world}: {cell.row.name}, seed {cell.seed}")
        paths = {split: dataset(cell.data, split, base, show_progress) for split in ("train", "test")}
        try:
            run_cell(experiment, cell, paths, device, show_progress)
        except Busy as error:
            say(f"{LEFT}: {error}")
        else:
            yield cell


def run_cell(
    experiment: Experiment, cell: Cell[Data], paths: dict[str, Path], device: str, show_progress: bool
) -> None:
    """Train, score and write down one row; a run that was interrupted goes on."""
    facts, start = asked_for(cell), time.perf_counter()
    if cell.row.change is None:
        images = ImageDataset(paths["test"], latents=moving_latents(cell.data.world))
        figures, seconds = {"R²": identity_r2(images, seed=cell.seed)}, time.perf_counter() - start
        cell.folder.mkdir(parents=True, exist_ok=True)
        facts |= {"pixels": "least squares of least norm"} | circumstances(torch.device("cpu"))
    else:
        options: dict[str, Any] = {"device": device, "show_progress": show_progress}
        run = train(paths["train"], settings_of(cell), out=cell.folder, resume=True, **options)
        evaluate(run.path, paths["test"], encoder=settings_of(cell).encoder, **options)
        write_report(run.path)
        scores = read_scores(run.path) or {}
        figures = experiments.figures(experiment, scores["scores"], run.latents)
        seconds = sum(line["seconds"] for line in read_log(run.path))
        facts |= {"dtype": run.dtype, **run.facts}
        facts |= {"widths": realised_widths(paths["train"], run.settings, run.world)}
    finish(cell, figures, seconds, facts)


def realised_widths(path: Path, s: Settings, world: World) -> dict[str, float | None]:
    """Latent by latent the mean |z̃ - z| of matched pairs over the mean that was asked for; None where it is held."""
    if s.images_alone:
        return {}
    found = pairs(path, **pairing(s, world), count=WIDTH_PAIRS)
    columns = zip(found.names, found.asked_mean, found.realised_mean, strict=True)
    return {name: round(got / asked, 3) if asked else None for name, asked, got in columns}
