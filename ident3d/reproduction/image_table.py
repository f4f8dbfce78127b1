"""What the table of an experiment on images has besides its rows: in what its rows differ from the paper's."""

from collections.abc import Sequence
from typing import Any, Final

from ident3d.reproduction.cells import Result
from ident3d.reproduction.mixing_table import Grid
from ident3d.training.experiments.experiment import Experiment, ImageVariant, Variant

# What the images and the seed decide, and what cannot change a figure of the paper's.
NOT_COMPARED: Final = ("seed", "size", "dtype", "compile", "sync_bn", "chunk", "search")


def image_grids(experiment: Experiment, profile: str, results: Sequence[Result]) -> list[Grid]:
    """Return what each row is, where its Λ̂ ended, and the settings that are not the paper's, as far as there are any.

    Other rows have a loss without Λ̂, or were run before it was recorded.
    """
    grids = [
        Grid("Rows", ("row", "its own settings"), own_settings(experiment, results)),
        Grid("Λ̂ at the end", ("row", "seed", "least", "most"), learnt_ranges(results)),
    ]
    if profile != "paper" and {"paper", profile} <= experiment.profiles.keys():
        rows = [line for variant in experiment.profiles[profile] for line in changed(experiment, variant, results)]
        grids.append(Grid("Settings", ("variant", "setting", "paper", "here"), rows))
    return [grid for grid in grids if grid.rows]


def own_settings(experiment: Experiment, results: Sequence[Result]) -> list[list[str]]:
    """Return a line for each row that has results: in what it differs from the others, as it was run."""
    had = {result.row: result.facts.get("settings", {}) for result in results}
    return [
        [row.name, ", ".join(f"{name} {shown(had[row.name].get(name, value))}" for name, value in row.change.items())]
        for row in experiment.rows
        if row.name in had and row.change
    ]


def learnt_ranges(results: Sequence[Result]) -> list[list[str]]:
    """Return the least and the most of each run's Λ̂."""
    ranges = ((result, result.facts.get("learnt_lambda")) for result in results)
    return [[result.row, str(result.seed), *(f"{value:.3g}" for value in ends)] for result, ends in ranges if ends]


def changed(experiment: Experiment, variant: Variant[Any], results: Sequence[Result]) -> list[list[str]]:
    """Return a line for each setting in which rows of a variant were run otherwise than the paper's are."""
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
        had, wanted = result.facts["settings"], paper.settings_of(rows[result.row], result.seed).as_dict()
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
        if experiment.protocol or experiment.readout:
            of = "protocol's samples" if experiment.protocol else "images that are read out"
            compare(result.row, f"share of the {of}", 1.0, images.get("fraction", 1.0))
    every = len({result.row for result in results})
    return [
        [variant.name, name, theirs, ours if len(which) == every else f"{ours} ({', '.join(which)})"]
        for name, values in found.items()
        for (theirs, ours), which in values.items()
    ]


def alike(paper: Variant[Any], variant: Variant[Any]) -> bool:
    """Return whether both are of one kind: of the same rows, if not all of them."""
    return bool(paper.rows) and set(paper.rows) == set(variant.rows)


def shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
