"""``reproduce``: the papers' experiments from nothing to a table, continued wherever an earlier call stopped."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ident3d.errors import UserError
from ident3d.loaders.folders.data_root import data_root
from ident3d.loaders.folders.folder import differences
from ident3d.reproduction import image_cells as reproducing_images
from ident3d.reproduction import mixing_cells as reproducing_mixing
from ident3d.reproduction.cells import LEFT, Cell, Say
from ident3d.reproduction.results import finished_results
from ident3d.reproduction.table import of_images, write_tables
from ident3d.training.experiments import experiment as experiments
from ident3d.training.experiments.experiment import EXPERIMENTS, Data, Experiment
from ident3d.training.experiments.mixing_tables import THEORY
from ident3d.training.losses.choice import check_seed


def reproduce(
    name: str,
    *,
    profile: str = "mini",
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    worlds: Sequence[str] = (),
    workers: int | None = None,
    out: Path | str | None = None,
    root: Path | None = None,
    device: str = "auto",
    experiment: Experiment | None = None,
    say: Say = print,
    show_progress: bool = True,
) -> tuple[Path, str]:
    """Run the rows of a paper's experiment that are not finished yet; returns the folder, and the table as Markdown.

    What images it needs are rendered first, if they are not below the data root already. An estimate is said before
    anything starts. Rows on mixed latents run side by side, one thread each, as many as there are cores or `workers`.
    Several processes may share a folder: a row that one of them is at is left to it. `experiment` gives an experiment
    of your own instead of the named one.
    """
    chosen = experiment or experiments.experiment(name, EXPERIMENTS | THEORY)
    if workers is not None and workers < 1:
        raise UserError(f"--workers is at least 1, not {workers}.")
    base = data_root(root)
    folder = Path(out) if out else base / "reproduce" / f"{chosen.name}-{profile}"
    cells = plan(chosen, profile, folder, rows=tuple(rows), seeds=tuple(seeds), worlds=tuple(worlds))
    check_finished(chosen, profile, folder)
    open_cells = [cell for cell in cells if not cell.done]
    if not open_cells:
        said = ["All rows asked for are finished."]
    elif of_images(chosen):
        said = reproducing_images.estimate(open_cells, base, device)
    else:
        said = reproducing_mixing.estimate(open_cells, device, workers)
    left = 0

    def tell(sentence: str) -> None:
        nonlocal left
        left += sentence.startswith(LEFT)
        say(sentence)

    def running() -> Iterator[Cell[Any]]:
        if of_images(chosen):
            return reproducing_images.run_cells(chosen, open_cells, base, device, tell, show_progress)
        return reproducing_mixing.run_cells(open_cells, device, workers, tell, show_progress)

    for sentence in said:
        say(sentence)
    for _ in running():
        publish(folder, chosen, profile)
    if left:
        rows_are = "1 row is" if left == 1 else f"{left} rows are"
        say(f"{rows_are} at work in other processes; the table gets what is missing once that is done.")
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
        cell: Cell[Any] = Cell(result.world, data, row, result.seed, folder / result.run)
        of = reproducing_images if isinstance(data, Data) else reproducing_mixing
        asked = json.loads(json.dumps(of.asked_for(cell)))  # as it was written down
        recorded = {name: result.facts.get(name) for name in asked}
        if "settings" in asked:  # those that were not there yet when the row was run were at their defaults
            recorded["settings"] = type(data.settings)().as_dict() | (recorded["settings"] or {})
        if found := differences(recorded, asked):
            raise UserError(
                f"{folder / result.run} was finished with other settings ({'; '.join(found)}); move it away, or "
                "choose another --out."
            )


def plan(
    experiment: Experiment,
    profile: str,
    folder: Path,
    *,
    rows: tuple[str, ...],
    seeds: tuple[int, ...],
    worlds: tuple[str, ...],
) -> list[Cell[Any]]:
    """All cells asked for, world by world, row by row."""
    if not seeds:
        raise UserError("Name at least one seed.")
    if len(set(seeds)) < len(seeds):
        raise UserError("A seed is named twice.")
    for seed in seeds:
        check_seed(seed)
    return [
        Cell(world, data, row, seed, folder / world / f"{row.name}-seed{seed}")
        for world, data in experiments.worlds_of(experiment, profile, worlds).items()
        for row in experiments.rows_of(experiment, data, rows)
        for seed in seeds
    ]
