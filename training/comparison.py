"""The table of an experiment: the paper's figures beside ours, seed by seed, as Markdown, JSON and HTML."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from tabulate import tabulate

from ident3d.loaders.files import write_atomically, write_json
from ident3d.training.charts import line_chart
from ident3d.training.experiments import Experiment, Row
from ident3d.training.log import read_log
from ident3d.training.report import table, write_page

NAME = "table"


@dataclass(frozen=True)
class Result:
    """One finished cell: a row on a world with a seed. Figures are shares of 1, `run` the folder below the table's."""

    world: str
    row: str
    seed: int
    figures: dict[str, float]
    seconds: float
    run: str
    facts: dict[str, Any]


def write_tables(folder: Path, experiment: Experiment, profile: str, command: str, results: Sequence[Result]) -> str:
    """Write table.md, table.json and report.html into the folder; returns the Markdown."""
    worlds = list(dict.fromkeys(result.world for result in results))
    parts = [f"# {experiment.title}", f"Profile `{profile}`, by `{command}`."]
    for world in worlds:
        rows = rows_of(experiment, [result for result in results if result.world == world])
        shown = tabulate(rows, headers=headers(experiment), tablefmt="github", disable_numparse=True)
        parts += [f"## {world}", shown]
    markdown = "\n\n".join([*parts, "Percent; paper / here ± spread over seeds. Scored on held-out images."]) + "\n"
    write_atomically(folder / f"{NAME}.md", markdown.encode())
    content: dict[str, object] = {
        "experiment": experiment.name,
        "profile": profile,
        "command": command,
        "paper": {row.name: {column: list(value) for column, value in row.paper.items()} for row in experiment.rows},
        "results": [vars(result) for result in results],
    }
    write_json(folder / f"{NAME}.json", json.loads(json.dumps(content)))
    body = [section(folder, experiment, world, [r for r in results if r.world == world]) for world in worlds]
    write_page(folder / "report.html", experiment.title, f"Profile {profile}, by {command}", body)
    return markdown


def headers(experiment: Experiment) -> list[str]:
    return ["row", *experiment.columns, "seeds", "|z̃-z| realised", "hours"]


def rows_of(experiment: Experiment, results: Sequence[Result]) -> list[list[str]]:
    """A line per row of the experiment that has results."""
    lines = []
    for row in experiment.rows:
        own = [result for result in results if result.row == row.name]
        if own:
            cells = [cell(row, column, own) for column in experiment.columns]
            hours = f"{mean(result.seconds for result in own) / 3600:.2f}"
            lines.append([row.name, *cells, ", ".join(str(result.seed) for result in own), widths(own), hours])
    return lines


def cell(row: Row, column: str, results: Iterable[Result]) -> str:
    """paper / here, each as mean ± spread in percent."""
    figures = [100 * result.figures[column] for result in results if column in result.figures]
    paper = row.paper.get(column)
    theirs = "–" if paper is None else f"{paper[0]:.2f}" + (f" ± {paper[1]:.2f}" if paper[1] else "")
    if not figures:
        return f"{theirs} / –"
    spread = f" ± {stdev(figures):.2f}" if len(figures) > 1 else ""
    return f"{theirs} / {mean(figures):.2f}{spread}"


def widths(results: Sequence[Result]) -> str:
    """How many times as wide as asked for the pairs turned out, from the least to the most widened latent."""
    ratios = [ratio for result in results for ratio in result.facts.get("widths", {}).values() if ratio is not None]
    return f"×{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "–"


def section(folder: Path, experiment: Experiment, world: str, results: Sequence[Result]) -> str:
    """A world's table, its curves side by side, and what each run was."""
    charts = []
    for result in results:
        log = read_log(folder / result.run)
        curves = {
            label: [(line["step"], line[name]) for line in log if isinstance(line.get(name), int | float)]
            for name, label in (("r2", "R²"), ("mcc", "MCC"))
        }
        charts.append(line_chart(curves, f"{result.row}, seed {result.seed}", 0, 1))
    per_seed = [
        [
            result.row,
            str(result.seed),
            *(f"{100 * result.figures[c]:.2f}" if c in result.figures else "–" for c in experiment.columns),
        ]
        for result in results
    ]
    settings = [[f"{r.row}, seed {r.seed}", json.dumps(r.facts, ensure_ascii=False)] for r in results]
    return (
        f"<h2>{escape(world)}</h2>"
        + table(headers(experiment), rows_of(experiment, results))
        + '<p class="soft">Percent; paper / here. Scored on held-out images.</p>'
        + f'<h2>Curves of the batches</h2><div class="grid">{"".join(charts)}</div>'
        + "<h2>Seed by seed</h2>"
        + table(["row", "seed", *experiment.columns], per_seed)
        + "<h2>Settings</h2>"
        + table([], settings, "words")
    )
