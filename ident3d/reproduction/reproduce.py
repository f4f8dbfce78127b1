"""``reproduce``: the papers' experiments from nothing to a table, continued wherever an earlier call stopped."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ident3d.errors import UserError, check_known
from ident3d.loaders.format.description import differences
from ident3d.loaders.format.files import write_atomically, write_json
from ident3d.loaders.stores.data_root import data_root
from ident3d.reproduction import image_cells, mixing_cells
from ident3d.reproduction.autoencoder import autoencoder_facts, beside_table, train_autoencoder, with_decoders
from ident3d.reproduction.cells import Cell, CellEvent, CellStatus, finished_results
from ident3d.reproduction.own_table import own_experiment
from ident3d.reproduction.stored_data import with_data, with_expected_data
from ident3d.reproduction.table import as_json, markdown, table_of
from ident3d.reproduction.table_page import write_table_page
from ident3d.training.experiments.by_name import EXPERIMENTS
from ident3d.training.experiments.experiment import Experiment, StoredVariant, on_validation
from ident3d.training.images.best_box import has_another_start
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

    Images that it needs are rendered or generated first, if they are not below the data root already; published data
    that cannot be generated are asked for. A variant whose rows are finished needs no data. What training takes is
    estimated, and said before data are generated. Rows on mixed latents run side by side, one thread each. Several
    processes may share a folder: a row that one of them trains is left to it.

    Args:
        name: An experiment, such as "table4", or the .toml file of a user's own table.
        profile: "paper" or "mini", the default; a user's own table has a single one.
        rows: Names of rows; all by default.
        seeds: Seeds of every row; by default 0, or those that the file names.
        variants: Names of the profile's variants; all by default.
        workers: Rows on mixed latents that run at the same time; by default as many as there are cores.
        out: The folder of the table.
        root: The data root, below which the folder is made without `out`.
        device: What torch uses: "cpu", "cuda", "mps" or "auto".
        validation: Score on images for tuning instead of the test set's, in a folder of its own.
        experiment: An `Experiment` to run instead of the named one.
        say: What takes sentences about the progress.
        show_progress: Show progress bars.

    Returns:
        The folder of the table, which holds table.md, table.json and report.html; and the table as Markdown.
    """
    if experiment is None:
        experiment = named_experiment(name)
    profile = experiment.usual_profile if profile is None else profile
    seeds = experiment.seeds if seeds is None else seeds
    if workers is not None and workers < 1:
        raise UserError(f"--workers is at least 1, not {workers}.")
    if validation:
        experiment = on_validation(experiment)
    base = data_root(root)
    own = experiment.name if experiment.file else f"{experiment.name}-{profile}"
    own += "-validation" if validation else ""
    folder = Path(out) if out else base / "reproduce" / own
    plan = partial(plan_cells, profile=profile, folder=folder, rows=rows, seeds=seeds, variants=variants)
    # Names are checked before data are generated, and a variant whose rows are all finished needs no data.
    due = {cell.variant.name for cell in plan(experiment) if not cell.done}
    estimate: list[str] = []
    if due and experiment.kind == "images":
        # Said before images are made: whoever has not got the time stops here.
        check_finished(experiment, profile, folder)
        ahead = plan(with_expected_data(experiment, profile, variants, due, base))
        for sentence in image_cells.estimate([cell for cell in ahead if not cell.done], base, device):
            say(sentence)
    experiment = with_data(experiment, profile, variants, due, base, say, show_progress)
    experiment = with_decoders(experiment, profile, folder)
    cells = plan(experiment)
    check_finished(experiment, profile, folder)
    cells = [cell for cell in cells if not cell.done]
    # Both generators start nothing before the loop below asks for their first event.
    events: Iterator[CellEvent]
    if not cells:
        estimate, events = ["All rows asked for are finished."], iter(())
    else:
        for variant in {cell.variant.name: cell.variant for cell in cells}.values():
            train_autoencoder(variant, folder, base, device, say, show_progress)
        # Only now it is known which decoder finished rows should have had.
        check_finished(experiment, profile, folder)
    if cells and experiment.kind == "images":
        events = image_cells.run_cells(experiment, cells, base, device, show_progress)
    elif cells:
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
        variant = variants.get(result.variant)
        if variant is None or result.row not in rows or (variant.only_rows and result.row not in variant.rows):
            what = "the file" if experiment.file else f"the profile {profile}"
            raise UserError(f"{path} is no row of {what}; move it away, or choose another --out.")
        cell: Cell[Any] = Cell(variant, rows[result.row], result.seed, path)
        if isinstance(variant, StoredVariant):
            # Data that this call does not run on may be away.
            ours = autoencoder_facts(variant, folder)
        else:
            ours = (image_cells if experiment.kind == "images" else mixing_cells).depends_on(cell)
        ours = json.loads(json.dumps(ours))  # as it is on disk: lists for tuples
        theirs = {name: result.facts.get(name) for name in ours}
        if "autoencoder" in ours:
            # Rows of before autoencoders were recorded do not say theirs.
            theirs["autoencoder"] = theirs["autoencoder"] or ours["autoencoder"]
        if "settings" in ours:
            # A setting that was added since the row was run was at its default then.
            theirs["settings"] = type(variant.settings)().as_dict() | (theirs["settings"] or {})
        if variant.autoencoder and experiment.kind == "mixing" and theirs["settings"]:
            theirs["settings"]["mixing"] = beside_table(theirs["settings"]["mixing"])
            # Rows of before decoders were recorded do not say theirs.
            theirs["decoder"] = theirs.get("decoder") or ours.get("decoder")
        if found := differences(theirs, ours):
            raise UserError(
                f"{path} was finished with other settings ({'; '.join(found)}); move it away, or choose another --out."
            )
        if has_another_start(result.facts):
            raise UserError(
                f"{path} was finished by an earlier version, which started boxes at another width than --bound auto "
                "does now; move it away, or choose another --out."
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
    chosen = [(v, row) for v in experiment.variants(profile, variants) for row in experiment.rows_of(v, rows)]
    if left := [name for name in rows if name not in {row.name for _, row in chosen}]:
        others = [v.name for v in experiment.variants(profile) if experiment.rows_of(v, left[:1])]
        named = " or ".join(v.name for v in experiment.variants(profile, variants))
        raise UserError(f"The row {left[0]} is run on the variant {' or '.join(others)}, and not on {named}.")
    return [Cell(v, row, seed, folder / v.name / f"{row.name}-seed{seed}") for v, row in chosen for seed in seeds]
