"""The table of an experiment: the paper's figures beside ours, seed by seed, as Markdown, JSON and HTML."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import mean, stdev

from tabulate import tabulate

from ident3d.errors import UserError
from ident3d.loaders.format.files import write_atomically, write_json
from ident3d.reproduction.mixing_table import over_training, plotted, theory_parts, theory_tables, unfinished
from ident3d.reproduction.results import Result
from ident3d.training.experiments.experiment import Data, Experiment, Row
from ident3d.training.images.run import open_run
from ident3d.training.loop.log import read_log
from ident3d.training.report.charts import line_chart
from ident3d.training.report.report import read_scores, run_sections, table, write_page

NAME = "table"
SUPERVISED = "supervised "


def write_tables(folder: Path, experiment: Experiment, profile: str, results: Sequence[Result]) -> str:
    """Write table.md, table.json and report.html into the folder; returns the Markdown."""
    order = [row.name for row in experiment.rows]
    results = sorted(results, key=lambda result: (order.index(result.row), result.seed))
    worlds = [world for world in experiment.profiles[profile] if any(result.world == world for result in results)]
    command, made = command_of(experiment, profile, results), machines(results)
    parts = [f"# {experiment.title}", f"Profile `{profile}`, by `{command}`.", *made]
    for world in worlds:
        rows = rows_of(experiment, [result for result in results if result.world == world])
        shown = tabulate(rows, headers=headers(experiment), tablefmt="github", disable_numparse=True)
        parts += [f"## {world}", shown]
    parts += [NOTE, *([IMAGES] if of_images(experiment) else theory_parts(experiment, profile, results))]
    markdown = "\n\n".join(parts) + "\n"
    content: dict[str, object] = {
        "experiment": experiment.name,
        "profile": profile,
        "command": command,
        "paper": {row.name: {column: list(value) for column, value in row.paper.items()} for row in experiment.rows},
        "results": [vars(result) for result in results],
    }
    body = [f'<p class="soft">{escape(sentence)}</p>' for sentence in made]
    body += [section(folder, experiment, world, [r for r in results if r.world == world]) for world in worlds]
    if not of_images(experiment):
        body += [f'<p class="soft">{escape(unfinished(experiment, results))}</p>']
        body += [f"<h2>{escape(t)}</h2>{table(h, r)}" for t, h, r in theory_tables(experiment, profile, results)]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{NAME}.md", markdown.encode())
    write_json(folder / f"{NAME}.json", content)
    write_page(folder / "report.html", experiment.title, f"Profile {profile}, by {command}", body)
    return markdown


NOTE = "Percent; paper / here, ± the spread over seeds. Scored on held-out samples."
IMAGES = (
    "Pair width: mean |z̃ - z| of the matched pairs over the one asked for, of the least and of the most widened latent."
)


def command_of(experiment: Experiment, profile: str, results: Sequence[Result]) -> str:
    """One command that makes the whole table, whatever commands have made it row by row."""
    words = [f"ident3d reproduce {experiment.name} --profile {profile}"]
    if not results:
        return words[0]
    rows, worlds = (list(dict.fromkeys(getattr(r, name) for r in results)) for name in ("row", "world"))
    every = {name for data in experiment.profiles[profile].values() for name in data.rows or names_of(experiment)}
    words += [f"--rows {','.join(rows)}"] if set(rows) != every else []
    words += [f"--variant {','.join(worlds)}"] if set(worlds) != set(experiment.profiles[profile]) else []
    return " ".join([*words, f"--seeds {','.join(map(str, sorted({r.seed for r in results})))}"])


def names_of(experiment: Experiment) -> list[str]:
    return [row.name for row in experiment.rows]


def machines(results: Sequence[Result]) -> list[str]:
    """A sentence about what computed the results, and for how long."""
    names = ("cpu", "device", "threads")
    made = [{name: r.facts[name] for name in names} | r.facts["versions"] for r in results if "versions" in r.facts]
    kinds = dict.fromkeys(f"{m['cpu']}, {m['device']}, {m['threads']} threads, torch {m.get('torch')}" for m in made)
    hours = sum(result.seconds for result in results) / 3600
    return [f"Computed by {'; '.join(kinds)}: {hours:.2f} hours of training in all."] if kinds else []


def headers(experiment: Experiment) -> list[str]:
    last = ["pair width", "hours"] if of_images(experiment) else ["hours", "CPU min"]
    return ["row", *experiment.columns, "seeds", *last]


def of_images(experiment: Experiment) -> bool:
    return any(isinstance(data, Data) for worlds in experiment.profiles.values() for data in worlds.values())


def rows_of(experiment: Experiment, results: Sequence[Result]) -> list[list[str]]:
    """A line per row of the experiment that has results."""
    lines = []
    for row in experiment.rows:
        own = [result for result in results if result.row == row.name]
        if not own:
            continue
        base = {result.seed: result for result in results if result.row == row.baseline}
        cells = [cell(row, column, own, base) for column in experiment.columns]
        hours = f"{mean(result.seconds for result in own) / 3600:.2f}"
        minutes = f"{mean(result.facts.get('cpu_seconds', 0.0) for result in own) / 60:.1f}"
        last = [widths(own), hours] if of_images(experiment) else [hours, minutes]
        lines.append([row.name, *cells, ", ".join(str(result.seed) for result in own), *last])
    return lines


def cell(row: Row, column: str, results: Iterable[Result], baselines: Mapping[int, Result]) -> str:
    """paper / here, each as mean ± spread in percent; a paper's figure without a spread as it is printed there."""
    figures = [
        100 * value for result in results if (value := figure(result, column, baselines.get(result.seed))) is not None
    ]
    paper = row.paper.get(column)
    theirs = "–" if paper is None else f"{paper[0]:.2f} ± {paper[1]:.2f}" if paper[1] else f"{paper[0]:g}"
    if not figures:
        return f"{theirs} / –"
    spread = f" ± {stdev(figures):.2f}" if len(figures) > 1 else ""
    return f"{theirs} / {mean(figures):.2f}{spread}"


def figure(result: Result, column: str, baseline: Result | None) -> float | None:
    """A result's figure; "supervised R²" is the R² of its baseline."""
    if column in result.figures or baseline is None or not column.startswith(SUPERVISED):
        return result.figures.get(column)
    return baseline.figures.get(column.removeprefix(SUPERVISED))


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
        charts += [line_chart(curves, f"{result.row}, seed {result.seed}", 0, 1), *over_training(result, log)]
    base = {(result.row, result.seed): result for result in results}
    baselines = {row.name: row.baseline for row in experiment.rows}
    per_seed = []
    for result in results:
        values = (figure(result, c, base.get((baselines[result.row] or "", result.seed))) for c in experiment.columns)
        cells = ("–" if value is None else f"{100 * value:.2f}" for value in values)
        per_seed.append([result.row, str(result.seed), *cells])
    plots = "".join(plotted(plot, results) for plot in experiment.plots)
    first = {result.row: result for result in reversed(results)}
    details = "".join(run_details(folder, result) for result in reversed(first.values()))
    return (
        f"<h2>{escape(world)}</h2>"
        + table(headers(experiment), rows_of(experiment, results))
        + f'<p class="soft">{escape(NOTE)} {escape(IMAGES if of_images(experiment) else experiment.notes)}</p>'
        + (f'<div class="grid">{plots}</div>' if plots else "")
        + f'<h2>Curves of the batches</h2><div class="grid">{"".join(charts)}</div>'
        + "<h2>Seed by seed</h2>"
        + table(["row", "seed", *experiment.columns], per_seed)
        + (f"<h2>Row by row</h2>{details}" if details else "")
    )


def run_details(folder: Path, result: Result) -> str:
    """What one run has learnt, and how it was made, folded away."""
    try:
        run = open_run(folder / result.run)
        inside = "".join(run_sections(run, read_scores(run.path)))
    except UserError:
        return ""  # no encoder, or moved away since
    return f"<details><summary>{escape(result.row)}, seed {result.seed}</summary>{inside}</details>"
