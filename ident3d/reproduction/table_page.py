"""The page of an experiment's table: report.html, with the curves and the report of each run inside it."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from ident3d.errors import UserError
from ident3d.reproduction.cells import Result
from ident3d.reproduction.mixing_table import Grid, plotted
from ident3d.reproduction.table import Table, figure, kind_of
from ident3d.training.images.run import open_run
from ident3d.training.loop.log_file import read_log
from ident3d.training.report.charts import curve, line_chart
from ident3d.training.report.report import run_sections, write_page
from ident3d.training.report.scored import read_scored
from ident3d.training.report.tables import html_table, number


def write_table_page(folder: Path, table: Table) -> Path:
    """Write report.html into the table's folder, with what lies in the folders of its runs."""
    body = [f'<p class="soft">{escape(sentence)}</p>' for sentence in (*table.source, *table.notes)]
    for grid in table.grids:
        body += section(folder, table, grid, [r for r in table.results if r.variant == grid.title])
    body += [shown for grid in table.more for shown in titled(grid)]
    subtitle = f"Profile {table.profile}, by {table.command}"
    return write_page(folder / "report.html", table.experiment.title, subtitle, body)


def titled(grid: Grid) -> list[str]:
    return [f"<h2>{escape(grid.title)}</h2>", html_table(grid.heads, grid.rows)]


def section(folder: Path, table: Table, grid: Grid, results: Sequence[Result]) -> list[str]:
    """Return a variant's table, its plots, its curves side by side, its figures seed by seed, and its runs."""
    plots = "".join(plotted(plot, results) for plot in table.experiment.plots)
    # Of the seeds of a row the first is shown in full.
    first = {result.row: result for result in reversed(results)}
    details = "".join(run_details(folder, result) for result in results if first[result.row] is result)
    return [
        *titled(grid),
        f'<div class="grid">{plots}</div>' if plots else "",
        f'<h2>Curves of the batches</h2><div class="grid">{"".join(charts(folder, table, results))}</div>',
        *titled(seed_by_seed(table, results)),
        f"<h2>Row by row</h2>{details}" if details else "",
    ]


def charts(folder: Path, table: Table, results: Sequence[Result]) -> list[str]:
    """Return the charts of every run's log."""
    found = []
    for result in results:
        log = read_log(folder / result.run)
        curves = {"R²": curve(log, "r2"), "MCC": curve(log, "mcc")}
        found.append(line_chart(curves, f"{result.row}, seed {result.seed}", 0, 1))
        found += kind_of(table.experiment).charts(result, log)
    return found


def seed_by_seed(table: Table, results: Sequence[Result]) -> Grid:
    """Return the figures of every single result, next to those of its baseline with the same seed."""
    by_name = {(result.row, result.seed): result for result in results}
    baselines = {row.name: row.baseline or "" for row in table.experiment.rows}
    columns, rows = table.experiment.columns, []
    for result in results:
        baseline = by_name.get((baselines[result.row], result.seed))
        values = [figure(result, column, baseline) for column in columns]
        rows.append([result.row, str(result.seed), *(number(value, 4) for value in values)])
    return Grid("Seed by seed", ["row", "seed", *columns], rows)


def run_details(folder: Path, result: Result) -> str:
    """Return what one run has learnt, and how it was made, folded away; nothing for a run without an encoder."""
    try:
        run = open_run(folder / result.run)
        inside = "".join(run_sections(run, read_scored(run), read_log(run.path)))
    except UserError:
        # The identity row and rows on mixed latents have no such run. Others may have been moved away.
        return ""
    return f"<details><summary>{escape(result.row)}, seed {result.seed}</summary>{inside}</details>"
