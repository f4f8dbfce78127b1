"""What the table of an experiment on mixed latents has besides its rows: Λ̂, settings, plots over a number."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, Final, NamedTuple

import numpy as np

from ident3d.reproduction.cells import Result
from ident3d.training.experiments.experiment import Experiment, Plot
from ident3d.training.mixing.by_lambda import as_lambda, beside_lambda, blocks
from ident3d.training.mixing.settings import MixingSettings, with_defaults
from ident3d.training.report.charts import line_chart

LAMBDA_COLUMNS: Final = ("row", "seed", "Λ", "Λ̂ that minimises the loss at f = g⁻¹", "and with f stretched", "Λ̂ here")

CORRELATION_COLUMNS: Final = ("row", "seed", "Λ over latents", "Λ̂ over codes")


class Grid(NamedTuple):
    """A table with a title: the names of its columns, and its cells row by row."""

    title: str
    heads: Sequence[str]
    rows: list[list[str]]


def mixing_grids(experiment: Experiment, profile: str, results: Sequence[Result]) -> list[Grid]:
    """Return the tables below the rows that are not empty: Λ̂, and the settings that are not the paper's."""
    grids = [
        Grid("Λ̂, mean of each block of equal Λ", LAMBDA_COLUMNS, lambda_rows(results)),
        Grid("Correlation of the two processes", CORRELATION_COLUMNS, correlation_rows(results)),
        Grid("Settings", ("setting", "paper", "here"), changed_settings(experiment, profile)),
    ]
    return [grid for grid in grids if grid.rows]


def lambda_rows(results: Iterable[Result]) -> list[list[str]]:
    """Return a row for each result and each process of it that has a Λ."""
    return [
        [result.row, str(result.seed), *cells]
        for result in results
        for cells in beside_lambda(result.facts["settings"]["lambdas"], result.facts, factor_of(result))
    ]


def factor_of(result: Result) -> float:
    """Return what turns the diagonal that a row's loss learnt into a Λ̂."""
    settings = result.facts["settings"]
    return as_lambda(settings["loss"], settings["tau"])


def correlation_rows(results: Iterable[Result]) -> list[list[str]]:
    """Return for each result of two processes how their Λ go together over the latents, and their Λ̂ over the codes."""
    rows = []
    for result in results:
        pairs = [result.facts["settings"]["lambdas"], result.facts.get("precision", [])]
        if all(len(pair) == 2 and all(np.ptp(values) for values in pair) for pair in pairs):
            rows.append([result.row, str(result.seed), *(f"{np.corrcoef(pair)[0, 1]:.3f}" for pair in pairs)])
    return rows


def changed_settings(experiment: Experiment, profile: str) -> list[list[str]]:
    """Return what a profile sets differently from the paper; single rows may change more."""
    if profile == "paper" or not {"paper", profile} <= experiment.profiles.keys():
        return []
    paper, here = experiment.profiles["paper"][0], experiment.profiles[profile][0]
    theirs, ours = paper.settings.as_dict(), here.settings.as_dict()
    # That the mixing is a decoder is the paper's; which one, its own settings say.
    changed = [name for name in ours if ours[name] != theirs[name] and not (name == "mixing" and here.autoencoder)]
    lines = [[name, shown_setting(name, theirs[name]), shown_setting(name, ours[name])] for name in changed]
    if paper.autoencoder and here.autoencoder:
        theirs, ours = paper.autoencoder.as_dict(), here.autoencoder.as_dict()
        for name in (name for name in ours if ours[name] != theirs[name]):
            lines.append([f"{name} of the autoencoder", shown_setting("", theirs[name]), shown_setting("", ours[name])])
    for name, change in {"supervised rows": here.supervised, **here.tuned}.items():
        if change:
            lines.append([name, "", ", ".join(f"{key} {shown_setting(key, value)}" for key, value in change.items())])
    return lines


def shown_setting(name: str, value: Any) -> str:
    """Return a setting as a reader is shown it: for None, what it stands for."""
    if value is None and name == "steps":
        paired, supervised = (with_defaults(MixingSettings(supervised=how)).steps for how in (False, True))
        return f"{paired}, supervised {supervised}"
    if value is None:
        return "the best scale at f = g⁻¹" if name == "bound" else "as fits"
    return str(value)


def plotted(plot: Plot, results: Sequence[Result]) -> str:
    """Return a plot of the results that there are, each point the mean over seeds."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for label, (column, places) in plot.curves.items():
        curves[label] = []
        for row, x in places.items():
            values = [result.figures[column] for result in results if result.row == row and column in result.figures]
            if values:
                curves[label].append((x, mean(values)))
    # From the first row and not from 0: the axis may be a logarithm.
    left = min(x for _, places in plot.curves.values() for x in places.values())
    return line_chart(curves, plot.title, 0, 1, left=left, mark=plot.mark)


def lambda_charts(result: Result, log: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return charts over training: Λ̂ as the mean of each of up to four blocks of equal Λ, and R² of both halves.

    If there are only two blocks, their Λ is drawn as well. With hard negatives there is one of the loss over Λ̂.
    """
    name, charts = f"{result.row}, seed {result.seed}", list[str]()
    lines = [line for line in log if line.get("precision")]
    processes = result.facts["settings"]["lambdas"] if lines else []
    for process, truth in enumerate(processes):
        # A chart has four colours, and of many different Λ the smallest say most.
        levels, curves = sorted(set(truth))[:4], dict[str, list[tuple[float, float]]]()
        for k, level in enumerate(levels):
            found = [factor_of(result) * mean(blocks(truth, line["precision"][process])[k]) for line in lines]
            curves[f"Λ̂ for Λ = {level:g}"] = [(line["step"], y) for line, y in zip(lines, found, strict=True)]
        # With more levels the lines of the truth would hide those of the run.
        if len(levels) <= 2:
            curves |= {f"Λ = {level:g}": [(line["step"], level) for line in lines] for level in levels}
        which = f", process {process + 1}" if len(processes) > 1 else ""
        charts.append(line_chart(curves, f"Λ̂ of {name}{which}", 0))
    halves = {
        label: [(line["step"], line[label]) for line in log if line.get(label) is not None]
        for label in ("R² content", "R² style")
    }
    charts.append(line_chart(halves, f"R² of {name}", 0, 1))
    if points := result.facts.get("loss_by_lambda"):
        s = result.facts["settings"]
        best = mean(s["lambdas"][0]) - mean(s["hard"])
        title = f"loss of {name} at f = g⁻¹ over Λ̂; line: Λ⁺ - Λ⁻"
        charts.append(line_chart({"loss": [(x, y) for x, y in points]}, title, left=points[0][0], mark=best))
    return charts
