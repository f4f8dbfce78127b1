"""What the table of an experiment on mixed latents has besides its rows: Λ̂, settings, plots over a number."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from tabulate import tabulate

from ident3d.reproduction.results import Result
from ident3d.training.experiments.experiment import Experiment, Plot
from ident3d.training.mixing.by_lambda import beside_lambda, blocks
from ident3d.training.mixing.settings import MixingSettings, with_defaults
from ident3d.training.report.charts import line_chart

PAIRED, SUPERVISED = (with_defaults(MixingSettings(supervised=supervised)) for supervised in (False, True))
UNSET = {
    "steps": f"{PAIRED.steps}, supervised {SUPERVISED.steps}",
    "bound": "the best scale at f = g⁻¹",
}
SETTINGS = ("setting", "paper", "here")
PRECISIONS = ("row", "seed", "Λ", "Λ̂ that minimises the loss at f = g⁻¹", "and with f stretched", "Λ̂ here")


def theory_parts(experiment: Experiment, profile: str, results: Sequence[Result]) -> list[str]:
    """The Markdown below the rows."""
    parts = [experiment.notes, unfinished(experiment, results)]
    for title, heads, rows in theory_tables(experiment, profile, results):
        parts += [f"## {title}", github(rows, heads)]
    return [part for part in parts if part]


def theory_tables(
    experiment: Experiment, profile: str, results: Sequence[Result]
) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    """Titles, heads and rows of the tables that are not empty: Λ̂, and the settings that are not the paper's."""
    tables: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("Λ̂, mean of each block of equal Λ", PRECISIONS, precision_rows(results)),
        ("Settings", SETTINGS, changed_settings(experiment, profile) if profile != "paper" else []),
    ]
    return [table for table in tables if table[2]]


def github(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    return tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)


def unfinished(experiment: Experiment, results: Sequence[Result]) -> str:
    have = {result.row for result in results}
    missing = [row.name for row in experiment.rows if row.name not in have]
    return f"Not run yet: {', '.join(missing)}." if missing else ""


def precision_rows(results: Sequence[Result]) -> list[list[str]]:
    """What `beside_lambda` says of each result and process."""
    return [
        [result.row, str(result.seed), *cells]
        for result in results
        for cells in beside_lambda(result.facts["settings"]["lambdas"], result.facts)
    ]


def changed_settings(experiment: Experiment, profile: str) -> list[list[str]]:
    """What a profile on mixed latents sets otherwise than the paper; single rows may change more."""
    if not {"paper", profile} <= experiment.profiles.keys():
        return []
    paper, here = (next(iter(experiment.profiles[name].values())) for name in ("paper", profile))
    theirs, ours = paper.settings.as_dict(), here.settings.as_dict()
    lines = [[name, words(name, theirs[name]), words(name, ours[name])] for name in ours if ours[name] != theirs[name]]
    special = {"supervised rows": here.supervised, **here.tuned}
    changes = (", ".join(f"{k} {words(k, v)}" for k, v in change.items()) for change in special.values())
    return lines + [[name, "", change] for name, change in zip(special, changes, strict=True) if change]


def words(name: str, value: Any) -> str:
    return UNSET.get(name, "as fits") if value is None else str(value)


def plotted(plot: Plot, results: Sequence[Result]) -> str:
    """A plot of the results that there are, each point the mean over seeds."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for label, (column, places) in plot.curves.items():
        curves[label] = []
        for row, x in places.items():
            values = [result.figures[column] for result in results if result.row == row and column in result.figures]
            if values:
                curves[label].append((x, mean(values)))
    left = min(x for _, places in plot.curves.values() for x in places.values())
    return line_chart(curves, plot.title, 0, 1, left=left, mark=plot.mark)


def over_training(result: Result, log: Sequence[Mapping[str, Any]]) -> list[str]:
    """Λ̂ over training as the mean of each of up to four blocks of equal Λ, with Λ beside two; R² of both halves."""
    name = f"{result.row}, seed {result.seed}"
    curves: dict[str, list[tuple[float, float]]] = {}
    if lines := [line for line in log if line.get("precision")]:
        truth = result.facts["settings"]["lambdas"][0]
        levels = sorted(set(truth))[:4]
        for k, level in enumerate(levels):
            curves[f"Λ̂ for Λ = {level:g}"] = [(x["step"], mean(blocks(truth, x["precision"][0])[k])) for x in lines]
        if len(levels) <= 2:
            curves |= {f"Λ = {level:g}": [(line["step"], level) for line in lines] for level in levels}
    halves = {
        label: [(line["step"], line[label]) for line in log if line.get(label) is not None]
        for label in ("R² content", "R² style")
    }
    return [line_chart(curves, f"Λ̂ of {name}", 0), line_chart(halves, f"R² of {name}", 0, 1)]
