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
from ident3d.loaders.folder import is_dataset, read_description
from ident3d.loaders.images import ImageDataset
from ident3d.loaders.realised import pairs
from ident3d.loaders.source import drawn
from ident3d.recipe import Recipe
from ident3d.root import data_root
from ident3d.training import experiments
from ident3d.training.comparison import Result, write_tables
from ident3d.training.evaluating import evaluate_run
from ident3d.training.experiments import Data, Experiment, Row
from ident3d.training.identity import identity_r2
from ident3d.training.log import read_log
from ident3d.training.memory import keep_memory
from ident3d.training.parts import pairing
from ident3d.training.precision import chosen_precision, seconds_of_pass
from ident3d.training.processes import device_of, on_device
from ident3d.training.report import read_scores, write_report
from ident3d.training.run import new_encoder
from ident3d.training.settings import Settings, completed, moving_latents
from ident3d.training.trainer import train

FILE = "result.json"
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
    anything starts. `experiment` gives an experiment of your own instead of the named one.
    """
    chosen = experiment or experiments.experiment(name)
    base = data_root(root)
    folder = out or base / "reproduce" / f"{chosen.name}-{profile}"
    cells = plan(chosen, profile, folder, rows=tuple(rows), seeds=tuple(seeds), worlds=tuple(worlds))
    open_cells = [cell for cell in cells if not (cell.folder / FILE).exists()]
    for sentence in estimate(open_cells, base, device):
        say(sentence)
    command = " ".join(
        ["ident3d reproduce", chosen.name, "--profile", profile]
        + [f"--rows {row}" for row in rows]
        + [f"--seeds {seed}" for seed in seeds]
        + [f"--world {world}" for world in worlds]
    )
    for number, cell in enumerate(open_cells, 1):
        say(f"[{number}/{len(open_cells)}] {cell.world}: {cell.row.name}, seed {cell.seed}")
        run_cell(chosen, cell, base, device, show_progress)
        write_tables(folder, chosen, profile, command, finished_results(folder))
    return folder, write_tables(folder, chosen, profile, command, finished_results(folder))


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
        hours += s.steps * s.batch * views * known[cell.world] / 3600
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


def run_cell(experiment: Experiment, cell: Cell, base: Path, device: str, show_progress: bool) -> None:
    """Train, score and write down one row; a run that was interrupted goes on."""
    paths = {split: dataset(cell.data, split, base, show_progress) for split in ("train", "test")}
    start = time.perf_counter()
    if cell.row.change is None:
        images = ImageDataset(paths["test"], latents=moving_latents(cell.data.world))
        cell.folder.mkdir(parents=True, exist_ok=True)
        finish(
            cell, {"R²": identity_r2(images)}, time.perf_counter() - start, {"pixels": "least squares of least norm"}
        )
        return
    run = train(paths["train"], cell.settings, out=cell.folder, device=device, resume=True, show_progress=show_progress)
    own = cell.settings.encoder
    evaluate_run(run.path, paths["test"], encoder=own, device=device, show_progress=show_progress)
    write_report(run.path)
    scores = read_scores(run.path) or {}
    figures = experiments.figures(experiment, scores["scores"], run.latents)
    facts = {"settings": run.settings.as_dict(), "precision": run.precision, **run.facts}
    log_seconds = sum(line["seconds"] for line in read_log(run.path))
    finish(cell, figures, log_seconds, facts | {"widths": realised_widths(paths["train"], run.settings, run.world)})


def finish(cell: Cell, figures: dict[str, float], seconds: float, facts: dict[str, Any]) -> None:
    result = Result(
        cell.world,
        cell.row.name,
        cell.seed,
        figures,
        round(seconds, 1),
        f"{cell.folder.parent.name}/{cell.folder.name}",
        facts,
    )
    write_json(cell.folder / FILE, vars(result))


def realised_widths(path: Path, s: Settings, world: World) -> dict[str, float | None]:
    """Latent by latent the mean |z̃ - z| of matched pairs over the mean that was asked for; None where it is held."""
    if s.images_alone:
        return {}
    found = pairs(path, **pairing(s, world), count=WIDTH_PAIRS)
    columns = zip(found.names, found.asked_mean, found.realised_mean, strict=True)
    return {name: round(got / asked, 3) if asked else None for name, asked, got in columns}


def finished_results(folder: Path) -> list[Result]:
    """Every result below the folder, in order of world, row and seed."""
    found = []
    for path in sorted(folder.glob(f"*/*/{FILE}")):
        try:
            found.append(Result(**json.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, TypeError):
            raise UserError(f"{path} cannot be read; delete it, and its row is scored again.") from None
    return found
