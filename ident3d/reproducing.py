"""``reproduce``: the papers' image experiments from nothing to a table, continued wherever an earlier call stopped."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ident3d.errors import UserError
from ident3d.latents.worlds import World
from ident3d.loaders.files import write_json
from ident3d.loaders.folder import differences, is_dataset, read_description
from ident3d.loaders.images import ImageDataset
from ident3d.loaders.lease import Busy
from ident3d.loaders.realised import pairs
from ident3d.loaders.source import drawn
from ident3d.recipe import Recipe
from ident3d.root import data_root
from ident3d.training import experiments
from ident3d.training.comparison import FILE, Result, finished_results, write_tables
from ident3d.training.evaluating import evaluate_run
from ident3d.training.experiments import Data, Experiment, Row
from ident3d.training.identity import identity_r2
from ident3d.training.log import read_log
from ident3d.training.memory import keep_memory
from ident3d.training.parts import pairing
from ident3d.training.precision import chosen_precision, seconds_of_pass
from ident3d.training.processes import device_of, on_device
from ident3d.training.report import read_scores, write_report
from ident3d.training.run import circumstances, new_encoder
from ident3d.training.settings import Settings, completed, moving_latents
from ident3d.training.trainer import train

WIDTH_PAIRS = 5000
Say = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One row on one world with one seed, and the folder of its run."""

    world: str
    data: Data
    row: Row
    seed: int
    folder: Path

    @property
    def settings(self) -> Settings:
        return self.row.settings(self.data.settings, self.seed)


def reproduce(
    name: str,
    *,
    profile: str = "mini",
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    worlds: Sequence[str] = (),
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
    experiment: Experiment | None = None,
    say: Say = print,
    show_progress: bool = True,
) -> tuple[Path, str]:
    """Run the rows of a paper's experiment that are not finished yet; returns the folder, and the table as Markdown.

    What images it needs are rendered first, if they are not below the data root already. An estimate is said before
    anything starts. Several processes may share a folder: a row that one of them is at is left to it. `experiment`
    gives an experiment of your own instead of the named one.
    """
    chosen = experiment or experiments.experiment(name)
    base = data_root(root)
    folder = out or base / "reproduce" / f"{chosen.name}-{profile}"
    cells = plan(chosen, profile, folder, rows=tuple(rows), seeds=tuple(seeds), worlds=tuple(worlds))
    check_finished(chosen, profile, folder)
    open_cells = [cell for cell in cells if not (cell.folder / FILE).exists()]
    for sentence in estimate(open_cells, base, device):
        say(sentence)
    left = 0
    for number, cell in enumerate(open_cells, 1):
        if (cell.folder / FILE).exists():
            continue  # by another process, since this one began
        say(f"[{number}/{len(open_cells)}] {cell.world}: {cell.row.name}, seed {cell.seed}")
        paths = {split: dataset(cell.data, split, base, show_progress) for split in ("train", "test")}
        try:
            run_cell(chosen, cell, paths, device, show_progress)
        except Busy as error:
            left += 1
            say(f"Left to another process: {error}")
            continue
        publish(folder, chosen, profile)
    if left:
        say(f"{left} rows are at work in other processes; the table has them once they are done.")
    return folder, publish(folder, chosen, profile)


def publish(folder: Path, experiment: Experiment, profile: str) -> str:
    """Write the table of every finished row; returns it as Markdown.

    Once more, where another process finished a row meanwhile: whoever writes last knows them all.
    """
    while True:
        results = finished_results(folder)
        markdown = write_tables(folder, experiment, profile, results)
        if finished_results(folder) == results:
            return markdown


def check_finished(experiment: Experiment, profile: str, folder: Path) -> None:
    """Refuse to set rows of other settings, or of other images, beside those of this profile as it is now."""
    for result in finished_results(folder):
        data = experiment.profiles[profile].get(result.world)
        row = next((row for row in experiment.rows if row.name == result.row), None)
        if data is None or row is None:
            raise UserError(f"{folder / result.run} is no row of this profile; move it away, or choose another --out.")
        cell = Cell(result.world, data, row, result.seed, folder / result.run)
        asked = json.loads(json.dumps(asked_for(cell)))  # as it was written down
        if found := differences({name: result.facts.get(name) for name in asked}, asked):
            raise UserError(
                f"{folder / result.run} was finished with other settings ({'; '.join(found)}); move it away, or "
                "choose another --out."
            )


def asked_for(cell: Cell) -> dict[str, Any]:
    """What a cell's figures depend on: the images, and the settings of what is trained on them."""
    d = cell.data
    images = {"train": d.train, "test": d.test, "size": d.size, "world": d.world.as_dict()}
    if cell.row.change is None:
        return {"images": images}
    settings = completed(cell.settings, d.world, d.size, d.train).as_dict()
    return {"images": images, "settings": settings}


def plan(
    experiment: Experiment,
    profile: str,
    folder: Path,
    *,
    rows: tuple[str, ...],
    seeds: tuple[int, ...],
    worlds: tuple[str, ...],
) -> list[Cell]:
    """All cells asked for, world by world, row by row."""
    if not seeds:
        raise UserError("Name at least one seed.")
    return [
        Cell(world, data, row, seed, folder / world / f"{row.name}-seed{seed}")
        for world, data in experiments.worlds_of(experiment, profile, worlds).items()
        for row in experiments.rows_of(experiment, data, rows)
        for seed in seeds
    ]


def dataset_path(data: Data, split: str, base: Path) -> Path:
    recipe, n = Recipe(data.world, split=split, size=data.size), data.train if split == "train" else data.test
    return base / recipe.name(n, drawn(recipe.seed, split))


def is_complete(path: Path) -> bool:
    return is_dataset(path) and read_description(path).complete


def dataset(data: Data, split: str, base: Path, show_progress: bool) -> Path:
    """The folder of a world's images, rendered now if they are not there."""
    path = dataset_path(data, split, base)
    if not is_complete(path):
        from ident3d.rendering import render

        n = data.train if split == "train" else data.test
        done = render(n, Recipe(data.world, split=split, size=data.size), out=path, show_progress=show_progress)
        if not done.complete:
            raise UserError(f"{path} could not be rendered whole; the same command tries again.")
    return path


def estimate(cells: Sequence[Cell], base: Path, device: str) -> list[str]:
    """What is left to do: images to render, and hours of training judged by one pass of each world's encoder."""
    if not cells:
        return ["All rows asked for are finished."]
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
        s = completed(cell.settings, cell.data.world, cell.data.size, cell.data.train)
        if cell.world not in known:
            known[cell.world] = seconds_per_image(s, cell, device)
        views = 1 if s.supervised else 2
        done = max((line["step"] for line in read_log(cell.folder)), default=0)
        hours += max(0, s.steps - done) * s.batch * views * known[cell.world] / 3600
    trained = sum(cell.row.change is not None for cell in cells)
    return [*said, f"{len(cells)} rows to do; about {hours:.1f} hours of training for {trained} of them here."]


def seconds_per_image(s: Settings, cell: Cell, device: str) -> float:
    """Seconds that one image takes in a training step, measured on a small batch."""
    keep_memory()
    where, count = device_of(device), 16
    model = on_device(new_encoder(s, cell.data.world), where)
    images = torch.randn(count, 3, s.size or 1, s.size or 1, device=where).to(memory_format=torch.channels_last)
    precision, _ = chosen_precision(s.precision, model, images)
    threads = torch.get_num_threads() if where.type == "cpu" else 1  # process time counts every thread
    return seconds_of_pass(model, images, precision) / count / threads


def run_cell(experiment: Experiment, cell: Cell, paths: dict[str, Path], device: str, show_progress: bool) -> None:
    """Train, score and write down one row; a run that was interrupted goes on."""
    facts, start = asked_for(cell), time.perf_counter()
    if cell.row.change is None:
        images = ImageDataset(paths["test"], latents=moving_latents(cell.data.world))
        figures, seconds = {"R²": identity_r2(images, seed=cell.seed)}, time.perf_counter() - start
        cell.folder.mkdir(parents=True, exist_ok=True)
        facts |= {"pixels": "least squares of least norm"} | circumstances(torch.device("cpu"))
    else:
        options: dict[str, Any] = {"device": device, "show_progress": show_progress}
        run = train(paths["train"], cell.settings, out=cell.folder, resume=True, **options)
        evaluate_run(run.path, paths["test"], encoder=cell.settings.encoder, **options)
        write_report(run.path)
        scores = read_scores(run.path) or {}
        figures = experiments.figures(experiment, scores["scores"], run.latents)
        seconds = sum(line["seconds"] for line in read_log(run.path))
        facts |= {"precision": run.precision, **run.facts}
        facts |= {"widths": realised_widths(paths["train"], run.settings, run.world)}
    result = Result(cell.world, cell.row.name, cell.seed, figures, round(seconds, 1), "", facts)
    write_json(cell.folder / FILE, vars(result))


def realised_widths(path: Path, s: Settings, world: World) -> dict[str, float | None]:
    """Latent by latent the mean |z̃ - z| of matched pairs over the mean that was asked for; None where it is held."""
    if s.images_alone:
        return {}
    found = pairs(path, **pairing(s, world), count=WIDTH_PAIRS)
    columns = zip(found.names, found.asked_mean, found.realised_mean, strict=True)
    return {name: round(got / asked, 3) if asked else None for name, asked, got in columns}
