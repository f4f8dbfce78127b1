"""``ident3d score``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ident3d.commands.options import option, options, show
from ident3d.commands.parameters import FILE, assignment, numbers
from ident3d.errors import UserError

if TYPE_CHECKING:
    from ident3d.metrics import Kind


def columns(text: str) -> list[int]:
    """0,1,2 as numbers."""
    return [int(part) for part in text.split(",")]


@click.command()
@options(
    option("--latents", required=True),
    option("--codes", type=FILE, required=True, help="Codes to score, a .npy file of shape (samples, codes)."),
    "--metrics",
    "--class-file",
    option("--discrete", type=numbers(int), show_default="integers of few values",
           help="Columns of discrete latents, such as 0,3."),
    option("--periodic", multiple=True, metavar="COLUMN=PERIOD", type=assignment("3=2", float, int),
           help="A periodic latent, such as 3=2; repeatable."),
    option("--code-period", type=float, help="Period of the codes, if they are angles: adds circular correlation."),
    option("--block", "blocks", multiple=True, metavar="NAME=COLUMNS", type=assignment("content=0,1,2", columns),
           help="A block of latents, such as content=0,1,2; repeatable."),
    "--names",
    option("--bootstrap", default=0, metavar="RESAMPLES", help="Add intervals from this many resamples, say 1000."),
    option("--level", default=0.95, help="Level of the intervals."),
    "--seed",
    "--json",
    "--plot",
)  # fmt: skip
def score(
    latents: Path, codes: Path, class_file: Path | None, discrete: tuple[int, ...] | None,
    periodic: tuple[tuple[int, float], ...], blocks: tuple[tuple[str, list[int]], ...], names: tuple[str, ...] | None,
    bootstrap: int, as_json: bool, plot: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Score codes against the true latents that they should identify.

    Prints a line per score with what it is identified up to, the values per latent, and which scores were left out
    and why. docs/reference/metrics.md explains every score.

    \b
      ident3d score --latents z.npy --codes h.npy                          two arrays of as many rows
      ident3d score --latents z.npy --codes h.npy --metrics mcc_pearson    one score
      ident3d score --latents z.npy --codes h.npy --block content=0,1,2    a block of latents as well
    """
    from ident3d.loaders.format.latents_source import read_npy
    from ident3d.metrics.scoring import score as score_arrays

    z = read_npy(latents)
    report = score_arrays(
        z,
        read_npy(codes),
        kinds=kinds(z, discrete, periodic),
        classes=None if class_file is None else read_npy(class_file),
        blocks=dict(blocks) or None,
        latent_names=names,
        resamples=bootstrap,
        **given,
    )
    if plot is not None:
        report.plot(plot)
    show(report, as_json)


def kinds(z: Any, discrete: tuple[int, ...] | None, periodic: tuple[tuple[int, float], ...]) -> "list[Kind] | None":
    """Return the kind of each latent, with the default where nothing is given; None if nothing is given at all."""
    from ident3d.metrics.factors import kinds_of
    from ident3d.metrics.inputs import matrix

    if discrete is None and not periodic:
        return None
    # --periodic alone keeps the guesses for the other latents; --discrete replaces them all
    found: list[Kind] = list(kinds_of(matrix(z, "latents z")))
    if discrete is not None:
        found = ["continuous"] * len(found)
    given: list[tuple[int, Kind]] = [*((column, "discrete") for column in discrete or ()), *periodic]
    for column, kind in given:
        if not 0 <= column < len(found):
            raise UserError(f"There is no latent {column}; the {len(found)} latents are numbered from 0.")
        found[column] = kind
    return found
