"""The contents of an experiment's table, the paper's figures next to ours, and the table as Markdown and as JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, Final

from tabulate import tabulate

from ident3d.reproduction.cells import Result
from ident3d.reproduction.image_table import image_grids
from ident3d.reproduction.mixing_table import Grid, lambda_charts, mixing_grids
from ident3d.training.experiments.experiment import Experiment
from ident3d.training.report.tables import PERCENT, number, paper_figure

SUPERVISED: Final = "supervised "
NOTE: Final = "Scores are shares of 1, ± the spread over seeds, on {}."


@dataclass(frozen=True)
class TableKind:
    """What the tables of one kind of experiment have of their own.

    `scored_on` says what samples, `last` holds the last columns and how a row's cell in them is made, `note` explains
    them, `grids` are tables below the rows, and `charts` are those of a single run.
    """

    scored_on: str
    last: Mapping[str, Callable[[Sequence[Result]], str]]
    note: str
    grids: Callable[[Experiment, str, Sequence[Result]], list[Grid]]
    charts: Callable[[Result, Sequence[Mapping[str, Any]]], list[str]]


@dataclass(frozen=True)
class Table:
    """The contents of a table, before they are written in any format.

    `source` says what computed the results. `grids` are the rows of each variant, `more` the tables below them.
    """

    experiment: Experiment
    profile: str
    results: list[Result]
    command: str
    source: list[str]
    grids: list[Grid]
    notes: list[str]
    more: list[Grid]


def table_of(experiment: Experiment, profile: str, results: Iterable[Result]) -> Table:
    """Put a table together from the results that there are."""
    # In the paper's order, whatever order the rows were run in.
    order = [row.name for row in experiment.rows]
    results = sorted(results, key=lambda result: (order.index(result.row), result.seed))
    names = [variant.name for variant in experiment.profiles[profile]]
    by_variant = {name: own for name in names if (own := [r for r in results if r.variant == name])}
    kind = kind_of(experiment)
    notes = [NOTE.format(kind.scored_on), kind.note, experiment.notes, not_run(experiment, profile, by_variant)]
    heads = ["row", *(head for column in experiment.columns for head in heads_of(experiment, column))]
    heads += ["seeds", *kind.last]
    return Table(
        experiment,
        profile,
        results,
        command=command_of(experiment, profile, results),
        source=source_of(results),
        grids=[Grid(name, heads, rows_of(experiment, own)) for name, own in by_variant.items()],
        notes=[note for note in notes if note],
        more=[*further_grids(experiment, by_variant), *kind.grids(experiment, profile, results)],
    )


def not_run(experiment: Experiment, profile: str, by_variant: Mapping[str, Sequence[Result]]) -> str:
    """Return a sentence that names the rows without results, variant by variant if there are several."""
    missing = {}
    for variant in experiment.profiles[profile]:
        have = {result.row for result in by_variant.get(variant.name, ())}
        names = [row.name for row in experiment.rows if not variant.only_rows or row.name in variant.rows]
        if rows := [name for name in names if name not in have]:
            missing[variant.name] = ", ".join(rows)
    said = [rows if len(experiment.profiles[profile]) == 1 else f"{name}: {rows}" for name, rows in missing.items()]
    return f"Not run yet: {'; '.join(said)}." if said else ""


def further_grids(experiment: Experiment, by_variant: Mapping[str, Sequence[Result]]) -> list[Grid]:
    """Return the experiment's further tables, of other columns of the same rows."""
    grids = []
    for title, columns in experiment.further.items():
        one = replace(experiment, columns=columns)
        heads = ["row", *(head for column in columns for head in heads_of(one, column)), "seeds"]
        for name, results in by_variant.items():
            lines = [line[: len(heads)] for line in rows_of(one, results)]
            grids.append(Grid(f"{name}: {title[0].lower()}{title[1:]}", heads, lines))
    return grids


def markdown(table: Table) -> str:
    """Return the table as Markdown."""

    def shown(grid: Grid) -> str:
        return f"## {grid.title}\n\n{tabulate(grid.rows, grid.heads, tablefmt='github', disable_numparse=True)}"

    head = [f"# {table.experiment.title}", f"Profile `{table.profile}`, by `{table.command}`.", *table.source]
    return "\n\n".join([*head, *map(shown, table.grids), *table.notes, *map(shown, table.more)]) + "\n"


def as_json(table: Table) -> dict[str, object]:
    """Return the table's figures, with everything that each result recorded, for table.json."""
    rows = table.experiment.rows
    return {
        "experiment": table.experiment.name,
        "profile": table.profile,
        "command": table.command,
        "paper": {row.name: {column: shares(value) for column, value in row.paper.items()} for row in rows},
        "results": [vars(result) for result in table.results],
    }


def shares(figure: tuple[float, float]) -> list[float]:
    """Return a paper's mean and spread, which it prints in percent, as shares of 1."""
    # Rounded, because a division by 100 leaves digits that nobody printed.
    return [round(value / PERCENT, 6) for value in figure]


def command_of(experiment: Experiment, profile: str, results: Sequence[Result]) -> str:
    """Return the commands that make the whole table: one for all rows that were run with the same seeds."""
    seeds: dict[tuple[str, str], set[int]] = {}
    for result in results:
        seeds.setdefault((result.variant, result.row), set()).add(result.seed)
    groups: dict[tuple[int, ...], list[Result]] = {}
    for result in results:
        groups.setdefault(tuple(sorted(seeds[result.variant, result.row])), []).append(result)
    head = f"ident3d reproduce {experiment.file or f'{experiment.name} --profile {profile}'}"
    words = (" ".join([head, *options_of(experiment, profile, group, same)]) for same, group in groups.items())
    return " && ".join(words) or head


def options_of(experiment: Experiment, profile: str, results: Sequence[Result], seeds: Sequence[int]) -> list[str]:
    """Return the options that choose these rows and variants, without those that name everything."""
    options = []
    rows, variants = (list(dict.fromkeys(getattr(r, name) for r in results)) for name in ("row", "variant"))
    every = experiment.variants(profile)
    if any(getattr(variant, "scored", "test") == "validation" for variant in every):
        options.append("--validation")
    if set(rows) != {row.name for variant in every for row in experiment.rows_of(variant)}:
        options.append(f"--rows {','.join(rows)}")
    if set(variants) != {variant.name for variant in every}:
        options.append(f"--variant {','.join(variants)}")
    return [*options, f"--seeds {','.join(map(str, seeds))}"]


def source_of(results: Sequence[Result]) -> list[str]:
    """Return a sentence about what computed the results, and for how long; nothing if they do not say."""
    names = ("cpu", "device", "threads")
    made = [{name: r.facts[name] for name in names} | r.facts["versions"] for r in results if "versions" in r.facts]
    kinds = dict.fromkeys(f"{m['cpu']}, {m['device']}, {m['threads']} threads, torch {m.get('torch')}" for m in made)
    total = sum(result.seconds for result in results) / 3600
    # The identity row has no training; older tables on images did not record it.
    cpu = [result.facts.get("cpu_seconds", 0.0) for result in results if "settings" in result.facts]
    also = f", {sum(cpu) / 3600:.2f} CPU-hours" if all(cpu) else ""
    return [f"Computed by {'; '.join(kinds)}: {total:.2f} hours of training in all{also}."] if kinds else []


def rows_of(experiment: Experiment, results: Sequence[Result]) -> list[list[str]]:
    """Return a line of cells for each row of the experiment that has results."""
    lines, last = [], kind_of(experiment).last.values()
    for row in experiment.rows:
        own = [result for result in results if result.row == row.name]
        base = {result.seed: result for result in results if result.row == row.baseline}
        if own:
            cells = []
            for column in experiment.columns:
                theirs = [paper_figure(row.paper.get(column))] if len(heads_of(experiment, column)) > 1 else []
                cells += [*theirs, mean_figure(column, own, base)]
            seeds = ", ".join(str(result.seed) for result in own)
            lines.append([row.name, *cells, seeds, *(made(own) for made in last)])
    return lines


def heads_of(experiment: Experiment, column: str) -> list[str]:
    """Return the heads of a column: the paper's and ours, or ours alone if the paper prints no figure of it."""
    theirs = any(column in row.paper for row in experiment.rows)
    return [f"{column}, paper", f"{column}, here"] if theirs else [column]


def mean_figure(column: str, results: Iterable[Result], baselines: Mapping[int, Result]) -> str:
    """Return our mean ± spread over seeds. `baselines` are the results of the row's baseline by seed."""
    found = (figure(result, column, baselines.get(result.seed)) for result in results)
    figures = [value for value in found if value is not None]
    # The spread is that over our seeds; one seed has none.
    spread = f" ± {stdev(figures):.4f}" if len(figures) > 1 else ""
    return number(mean(figures) if figures else None, 4) + spread


def figure(result: Result, column: str, baseline: Result | None) -> float | None:
    """Return a result's figure; "supervised R²" is the R² of its baseline."""
    # A figure of the row itself comes before one of its baseline.
    if column in result.figures or baseline is None or not column.startswith(SUPERVISED):
        return result.figures.get(column)
    return baseline.figures.get(column.removeprefix(SUPERVISED))


def pair_width(results: Sequence[Result]) -> str:
    """Return how many times as wide as asked for the pairs turned out, of the least and the most widened latent."""
    ratios = [ratio for result in results for ratio in result.facts.get("widths", {}).values() if ratio is not None]
    return f"×{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "–"


def hours(results: Sequence[Result]) -> str:
    return f"{mean(result.seconds for result in results) / 3600:.2f}"


def cpu_minutes(results: Sequence[Result]) -> str:
    found = [result.facts["cpu_seconds"] for result in results if "cpu_seconds" in result.facts]
    return f"{mean(found) / 60:.1f}" if found else "–"


def steps(results: Sequence[Result]) -> str:
    return f"{mean(result.facts['settings']['steps'] for result in results):,.0f}"


HELD_OUT: Final = "held-out samples"
TABLE_KINDS: Final = {
    "images": TableKind(
        HELD_OUT,
        last={"pair width": pair_width, "hours": hours, "CPU min": cpu_minutes},
        note="Pair width: mean |z̃ - z| of the matched pairs over the one asked for, of the least and of the most "
        "widened latent. CPU min: of training.",
        grids=image_grids,
        charts=lambda *_: [],
    ),
    "mixing": TableKind(
        HELD_OUT, {"hours": hours, "CPU min": cpu_minutes}, note="", grids=mixing_grids, charts=lambda_charts
    ),
    "readout": TableKind(
        "test images",
        last={"steps": steps, "CPU min": cpu_minutes},
        note="CPU min: of training.",
        grids=image_grids,
        charts=lambda *_: [],
    ),
    "protocol": TableKind(
        "samples of the data set that was trained on, as in the paper",
        last={"steps": steps, "CPU min": cpu_minutes},
        note="CPU min: of training.",
        grids=image_grids,
        charts=lambda *_: [],
    ),
}


def kind_of(experiment: Experiment) -> TableKind:
    """Return what the tables of an experiment's kind have of their own."""
    if experiment.readout:
        return TABLE_KINDS["readout"]
    return TABLE_KINDS["protocol" if experiment.protocol else experiment.kind]
