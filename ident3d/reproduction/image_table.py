"""What a table on images takes from scores, and what it has below its rows: R² by latent, order and settings."""

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import mean
from typing import Any, Final

from scipy.stats import spearmanr

from ident3d.latents.attainable import attainable_r2
from ident3d.latents.worlds import World
from ident3d.metrics.report import Report
from ident3d.reproduction.cells import Result
from ident3d.reproduction.mixing_table import Grid
from ident3d.training.experiments.experiment import Experiment, ImageVariant, Variant
from ident3d.training.loop.log_file import BY_LATENT
from ident3d.training.report.tables import PERCENT, number

# What the images and the seed decide, and what cannot change a figure of the paper's.
NOT_COMPARED: Final = ("seed", "size", "dtype", "compile", "sync_bn", "chunk", "search")
SCORE_BY_LATENT: Final = "linear_r2_held_out"  # the score whose values by latent a table shows
# Fewer figures have no order worth the name: three of them agree by chance once in six times.
LEAST: Final = 4

Cells = dict[tuple[str, str], tuple[float, float]]  # row, column → the paper's figure and ours


def image_grids(experiment: Experiment, profile: str, results: Sequence[Result]) -> list[Grid]:
    """Return R² by latent, the order of the figures, what each row is, its Λ̂, and settings that are not the paper's.

    A row without Λ̂ has a loss without it, or was run before it was recorded.
    """
    by_variant = {name: [r for r in results if r.variant == name] for name in dict.fromkeys(r.variant for r in results)}
    grids = [
        *(latent_grid(variant, by_variant.get(variant.name, ())) for variant in experiment.profiles[profile]),
        *(order_grid(experiment, name, own) for name, own in by_variant.items() if experiment.ordered),
        Grid("Rows", ("row", "its own settings"), own_settings(experiment, results)),
        Grid("Λ̂ at the end", ("row", "seed", "least", "most"), learnt_ranges(results)),
    ]
    if profile != "paper" and {"paper", profile} <= experiment.profiles.keys():
        rows = [line for variant in experiment.profiles[profile] for line in changed(experiment, variant, results)]
        grids.append(Grid("Settings", ("variant", "setting", "profile paper", "here"), rows))
    return [grid for grid in grids if grid.rows]


def figures_of(experiment: Experiment, report: Report) -> dict[str, float]:
    """Return a run's figures under the table's columns; a column without a score is left out."""
    found = {}
    for column, (name, latents) in experiment.scores.items():
        # A score may not exist for these latents, such as that of the class.
        if name not in report.scores:
            continue
        known = by_latent(report, name) if latents else {}
        values = [known.get(each) for each in latents] if latents else [report.scores[name].as_dict()["score"]]
        if numbers := [float(value) for value in values if value is not None]:
            found[column] = sum(numbers) / len(numbers)
    return found


def by_latent(report: Report, name: str) -> dict[str, float]:
    """Return a score's values by latent, of those that have one; nothing if the score was left out."""
    values = report.per_latent(name) if name in report.scores else None
    pairs = [] if values is None else zip(report.latent_names, values.tolist(), strict=False)
    return {latent: value for latent, value in pairs if isfinite(value)}


def latent_grid(variant: Variant[Any], results: Sequence[Result]) -> Grid:
    """Return the held-out R² of each latent, the mean over the seeds named, row by row below what is attainable.

    Rows without an encoder, and rows and seeds that were run before it was recorded, are left out.
    """
    rows: dict[str, dict[int, dict[str, float]]] = {}
    for result in results:
        if found := result.facts.get(BY_LATENT):
            rows.setdefault(result.row, {})[result.seed] = found
    latents = list(dict.fromkeys(latent for seeds in rows.values() for each in seeds.values() for latent in each))
    lines = [
        [name, *(mean_r2(list(seeds.values()), latent) for latent in latents), ", ".join(map(str, seeds))]
        for name, seeds in rows.items()
    ]
    if rows and isinstance(variant, ImageVariant) and isinstance(variant.world, World):
        most = attainable_r2(variant.world)
        lines.insert(0, ["attainable", *(number(most.get(latent)) for latent in latents), ""])
    return Grid(f"{variant.name}: R² by latent", ("row", *latents, "seeds"), lines)


def mean_r2(seeds: Sequence[Mapping[str, float]], latent: str) -> str:
    found = [each[latent] for each in seeds if latent in each]
    return number(mean(found) if found else None)


def order_grid(experiment: Experiment, variant: str, results: Sequence[Result]) -> Grid:
    """Return a table of Spearman's ρ between the paper's figures and ours.

    ρ = corr(rank(paper), rank(ours)), with midranks of equal figures: over all cells, over the rows in each column, and
    over the columns in each row.
    """
    cells = compared(experiment, results)
    rows, columns = [row.name for row in experiment.rows], experiment.columns
    parts = {
        "all cells": cells,
        **{
            f"{column}, over rows": {key: pair for key, pair in cells.items() if key[1] == column} for column in columns
        },
        **{f"{row}, over columns": {key: two for key, two in cells.items() if key[0] == row} for row in rows},
    }
    lines = [[name, str(len(part)), f"{rank_correlation(part):.2f}"] for name, part in parts.items() if ranked(part)]
    return Grid(f"{variant}: order beside the paper's", ("figures", "number", "Spearman's ρ"), lines)


def compared(experiment: Experiment, results: Sequence[Result]) -> Cells:
    """Return the paper's figure and our mean over seeds, as shares of 1, of each cell that has both."""
    cells = {}
    for row in experiment.rows:
        own = [result for result in results if result.row == row.name]
        for column, (theirs, _) in row.paper.items():
            figures = [result.figures.get(column) for result in own]
            found = [value for value in figures if value is not None]
            if found:
                cells[row.name, column] = (theirs / PERCENT, mean(found))
    return cells


def ranked(cells: Cells) -> bool:
    """Return whether there are figures enough, and on both sides ones that differ."""
    return len(cells) >= LEAST and all(len(set(side)) > 1 for side in zip(*cells.values(), strict=True))


def rank_correlation(cells: Cells) -> float:
    """Return Spearman's ρ of the paper's figures and ours."""
    theirs, ours = zip(*cells.values(), strict=True)
    return float(spearmanr(theirs, ours).statistic)


def own_settings(experiment: Experiment, results: Sequence[Result]) -> list[list[str]]:
    """Return a line for each row that has results: in what it differs from the others, as it was run."""
    had = {result.row: result.facts.get("settings", {}) for result in results}
    return [
        [
            row.name,
            ", ".join(f"{name} {shown(had[row.name].get(name, value), name)}" for name, value in row.change.items()),
        ]
        for row in experiment.rows
        if row.name in had and row.change
    ]


def learnt_ranges(results: Sequence[Result]) -> list[list[str]]:
    """Return the least and the most of each run's Λ̂."""
    ranges = ((result, result.facts.get("learnt_lambda")) for result in results)
    return [[result.row, str(result.seed), *(f"{value:.3g}" for value in ends)] for result, ends in ranges if ends]


def changed(experiment: Experiment, variant: Variant[Any], results: Sequence[Result]) -> list[list[str]]:
    """Return a line for each setting in which rows of a variant were run otherwise than those of the profile paper."""
    # setting → its two values → the rows that have them
    found: dict[str, dict[tuple[str, str], dict[str, None]]] = {}
    first = experiment.profiles["paper"][0]
    paper = next((v for v in experiment.profiles["paper"] if alike(v, variant)), first)

    def compare(row: str, name: str, wanted: object, had: object) -> None:
        # What the paper leaves to the data, such as the best box, is no difference.
        if wanted is not None and had is not None and wanted != had:
            found.setdefault(name, {}).setdefault((shown(wanted), shown(had)), {})[row] = None

    rows = {row.name: row for row in experiment.rows}
    results = [result for result in results if result.variant == variant.name and "settings" in result.facts]
    for result in results:
        had, wanted = map(
            box_said, (result.facts["settings"], paper.settings_of(rows[result.row], result.seed).as_dict())
        )
        for name in sorted(wanted.keys() - set(NOT_COMPARED)):
            compare(result.row, name, wanted[name], had.get(name))
        images = result.facts["images"]
        if paper.autoencoder and variant.autoencoder:
            theirs, ours = paper.autoencoder.as_dict(), variant.autoencoder.as_dict()
            for name in theirs:
                compare(result.row, f"{name} of the autoencoder", theirs[name], ours[name])
        if isinstance(paper, ImageVariant):
            compare(result.row, "images to train on", paper.train, images["train"])
            compare(result.row, "images to score on", paper.test, images["test"])
            compare(result.row, "pixels", paper.size, images["size"])
            theirs, ours = paper.world.as_dict(), images["world"]
            compare(result.row, "latents held fixed", held_fixed(theirs), held_fixed(ours))
            compare(result.row, "hues", theirs.get("hues"), ours.get("hues"))
        if experiment.protocol or experiment.readout:
            of = "protocol's samples" if experiment.protocol else "images that are read out"
            compare(result.row, f"share of the {of}", 1.0, images.get("fraction", 1.0))
    every = len({result.row for result in results})
    return [
        [variant.name, name, theirs, ours if len(which) == every else f"{ours} ({', '.join(which)})"]
        for name, values in found.items()
        for (theirs, ours), which in values.items()
    ]


def box_said(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a start and a rate of the box's bound that can be compared; neither without a box."""
    said = {name: value for name, value in settings.items() if name not in ("bound", "space_lr")}
    if "box" not in str(settings.get("space")):
        return said
    return said | {"bound": shown(settings["bound"], "bound"), "rate of the bound": settings.get("space_lr") or "lr"}


def held_fixed(world: Mapping[str, Any]) -> str:
    fixed = world.get("fixed") or {}
    return ", ".join(f"{name}={value:g}" for name, value in fixed.items()) or "none"


def alike(paper: Variant[Any], variant: Variant[Any]) -> bool:
    """Return whether both are of one kind: of the same rows, if not all of them."""
    return bool(paper.rows) and set(paper.rows) == set(variant.rows)


def shown(value: object, name: str = "") -> str:
    """Return a setting as a table shows it. None is what a run decides by itself, for a bound `--bound auto`."""
    if value is None:
        return "auto" if name == "bound" else "usual"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
