"""``reproduce``: the papers' experiments from nothing to a table, continued wherever an earlier call stopped."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ident3d.errors import UserError, check_known
from ident3d.loaders.folders.folder import differences
from ident3d.loaders.format.files import write_atomically, write_json
from ident3d.loaders.stores.data_root import data_root
from ident3d.reproduction import image_cells, mixing_cells
from ident3d.reproduction.cells import Cell, CellEvent, CellStatus, finished_results
from ident3d.reproduction.own_table import own_experiment
from ident3d.reproduction.table import as_json, markdown, table_of
from ident3d.reproduction.table_page import write_table_page
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import Experiment, validated
from ident3d.training.losses.choice import check_seeds


def reproduce(
    name: Path | str,
    *,
    profile: str | None = None,
    rows: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    variants: Sequence[str] = (),
    workers: int | None = None,
    out: Path | str | None = None,
    root: Path | str | None = None,
    device: str = "auto",
    validation: bool = False,
    experiment: Experiment | None = None,
    say: Callable[[str], None] = print,
    show_progress: bool = True,
) -> tuple[Path, str]:
    """Run the rows of a paper's experiment that are not finished yet; return the folder, and the table as Markdown.

    Images that it needs are rendered first, if they are not below the data root already. An estimate is printed before
    anything starts. Rows on mixed latents run side by side, one thread each, as many as there are cores or `workers`.
    Several processes may share a folder: a row that one of them trains is left to it. With `validation` rows are
    scored on images for tuning, in a folder of their own. A `name` that ends with .toml is the file of a user's own
    table. `experiment` gives an experiment instead of the named one. By default the profile is mini, or a user's own
    table's only one, and the seed 0, or those that the file names.
    """
    if experiment is None:
        experiment = named_experiment(name)
    profile = experiment.usual_profile if profile is None else profile
    seeds = experiment.seeds if seeds is None else seeds
    if workers is not None and workers < 1:
        raise UserError(f"--workers is at least 1, not {workers}.")
    if validation:
        experiment = validated(experiment)
    base = data_root(root)
    own = experiment.name if experiment.file else f"{experiment.name}-{profile}"
    own += "-validation" if validation else ""
    folder = Path(out) if out else base / "reproduce" / own
    cells = plan_cells(experiment, profile, folder, rows=rows, seeds=seeds, variants=variants)
    check_finished(experiment, profile, folder)
    cells = [cell for cell in cells if not cell.done]
    # Both generators start nothing before the loop below asks for their first event.
    events: Iterator[CellEvent]
    if not cells:
        estimate, events = ["All rows asked for are finished."], iter(())
    elif experiment.kind == "images":
        estimate = image_cells.estimate(cells, base, device)
        events = image_cells.run_cells(experiment, cells, base, device, show_progress)
    else:
        estimate = mixing_cells.estimate(cells, device, workers)
        events = mixing_cells.run_cells(cells, device, workers, show_progress)
    for sentence in estimate:
        say(sentence)
    started, busy, failures = 0, 0, list[str]()
    for cell, status, reason in events:
        if status is CellStatus.STARTED:
            started += 1
            say(f"[{started}/{len(cells)}] {cell.label}")
        elif status is CellStatus.FINISHED:
            # After every row, so that an interrupted table shows what is there.
            publish(folder, experiment, profile)
        elif status is CellStatus.BUSY:
            busy += 1
            say(f"Left to another process: {cell.label}. {reason}")
        else:
            failures.append(reason)
            say(f"Failed: {cell.label}: {reason}")
    # A row that failed ends no other, so its reason is raised once all are done.
    if failures:
        raise UserError(" ".join(failures))
    if busy:
        rows_are = "1 row is" if busy == 1 else f"{busy} rows are"
        say(f"{rows_are} being run by other processes; each adds its rows to the table.")
    return folder, publish(folder, experiment, profile)


def named_experiment(name: Path | str) -> Experiment:
    """Return a paper's experiment by its name, or the one of a user's own file."""
    if str(name).endswith(".toml"):
        return own_experiment(name)
    check_known("experiment", str(name), [*EXPERIMENTS, "FILE.toml"])
    return EXPERIMENTS[str(name)]


def publish(folder: Path, experiment: Experiment, profile: str) -> str:
    """Write table.md, table.json and report.html of every finished row into the folder; return the Markdown."""
    # Another process may finish a row and write its table while this one writes. So each looks once more after it has
    # written: the last to write then knows all rows.
    while True:
        results = finished_results(folder)
        table = table_of(experiment, profile, results)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "table.md", markdown(table).encode())
        write_json(folder / "table.json", as_json(table))
        write_table_page(folder, table)
        if finished_results(folder) == results:
            return markdown(table)


def check_finished(experiment: Experiment, profile: str, folder: Path) -> None:
    """Raise UserError if the folder holds rows of other settings, or of other images, than this profile's of now."""
    variants = {variant.name: variant for variant in experiment.profiles[profile]}
    rows = {row.name: row for row in experiment.rows}
    for result in finished_results(folder):
        path = folder / result.run
        if result.variant not in variants or result.row not in rows:
            raise UserError(f"{path} is no row of the profile {profile}; move it away, or choose another --out.")
        variant = variants[result.variant]
        cell: Cell[Any] = Cell(variant, rows[result.row], result.seed, path)
        ours = (image_cells if experiment.kind == "images" else mixing_cells).depends_on(cell)
        ours = json.loads(json.dumps(ours))  # as it is on disk: lists for tuples
        theirs = {name: result.facts.get(name) for name in ours}
        if "settings" in ours:
            # A setting that was added since the row was run was at its default then.
            theirs["settings"] = type(variant.settings)().as_dict() | (theirs["settings"] or {})
        if found := differences(theirs, ours):
            raise UserError(
                f"{path} was finished with other settings ({'; '.join(found)}); move it away, or choose another --out."
            )


def plan_cells(
    experiment: Experiment,
    profile: str,
    folder: Path,
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    variants: Sequence[str] = (),
) -> list[Cell[Any]]:
    """Return all cells asked for, variant by variant, row by row."""
    check_seeds(seeds)
    return [
        Cell(variant, row, seed, folder / variant.name / f"{row.name}-seed{seed}")
        for variant in experiment.variants(profile, variants)
        for row in experiment.rows_of(variant, rows)
        for seed in seeds
    ]
