"""What the table of an experiment on mixed latents has besides its rows: Λ̂, settings, plots over a number."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from tabulate import tabulate

from ident3d.training.charts import line_chart
from ident3d.training.experiments import Experiment, Plot
from ident3d.training.results import Result

PRECISIONS = ("row", "seed", "Λ", "Λ̂ that minimises the loss at f = g⁻¹", "Λ̂ here")


def theory_parts(experiment: Experiment, profile: str, results: Sequence[Result]) -> list[str]:
    """The Markdown below the rows."""
    parts = [experiment.notes, unfinished(experiment, results)]
    if precisions := precision_rows(results):
        parts += ["## Λ̂, mean of each block of equal Λ", github(precisions, PRECISIONS)]
    if profile != "paper" and (changed := changed_settings(experiment, profile)):
        parts += ["## Settings", github(changed, ("setting", "paper", "here"))]
    return [part for part in parts if part]


def github(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    return tabulate(rows, headers=heads, tablefmt="github", disable_numparse=True)


def unfinished(experiment: Experiment, results: Sequence[Result]) -> str:
    have = {result.row for result in results}
    missing = [row.name for row in experiment.rows if row.name not in have]
    return f"Not run yet: {', '.join(missing)}." if missing else ""


def precision_rows(results: Sequence[Result]) -> list[list[str]]:
    """Λ, the Λ̂ that minimises the loss at f = g⁻¹, and Λ̂ of each result and process, as means over equal Λ."""
    lines = []
    for result in results:
        facts = result.facts
        for process, ours in enumerate(facts.get("precision", [])):
            truth, best = facts["settings"]["lambdas"][process], facts["minimum"]["precision"][process]
            shown = [[values[0] for values in blocks(truth, truth)]]
            shown += [[mean(values) for values in blocks(truth, found)] for found in (best, ours)]
            lines.append([result.row, str(result.seed), *(", ".join(f"{x:.4g}" for x in some) for some in shown)])
    return lines


def blocks(truth: Sequence[float], values: Sequence[float]) -> list[list[float]]:
    """The values in increasing order, in as many blocks, of the same sizes, as there are different values in `truth`.

    Λ̂ is known up to a permutation, so its smallest entries are those of the smallest Λ.
    """
    ordered, found, start = sorted(values), [], 0
    for value in sorted(set(truth)):
        count = list(truth).count(value)
        found.append(ordered[start : start + count])
        start += count
    return found


def changed_settings(experiment: Experiment, profile: str) -> list[list[str]]:
    """What a profile on mixed latents sets otherwise than the paper; single rows may change more."""
    if not {"paper", profile} <= experiment.profiles.keys():
        return []
    paper, here = (next(iter(experiment.profiles[name].values())) for name in ("paper", profile))
    theirs, ours = paper.settings.as_dict(), here.settings.as_dict()
    lines = [[name, words(theirs[name]), words(ours[name])] for name in ours if ours[name] != theirs[name]]
    special = {"supervised rows": here.supervised, **here.tuned}
    changes = (", ".join(f"{k} {words(v)}" for k, v in change.items()) for change in special.values())
    return lines + [[name, "", change] for name, change in zip(special, changes, strict=True) if change]


def words(value: Any) -> str:
    return "as fits" if value is None else str(value)


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


def precision_chart(result: Result, log: Sequence[Mapping[str, Any]]) -> str:
    """Λ̂ over training, as the mean of each of up to four blocks of equal Λ, with Λ beside it."""
    lines = [line for line in log if line.get("precision")]
    if not lines:
        return ""
    truth = result.facts["settings"]["lambdas"][0]
    levels = sorted(set(truth))[:4]
    curves = {
        f"Λ = {level:g}": [(line["step"], mean(blocks(truth, line["precision"][0])[k])) for line in lines]
        for k, level in enumerate(levels)
    }
    return line_chart(curves, f"Λ̂ of {result.row}, seed {result.seed}", 0)
