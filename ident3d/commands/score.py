"""``ident3d score``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ident3d.commands.options import option, options
from ident3d.commands.output import show
from ident3d.commands.parameters import FILE, assignment, numbers
from ident3d.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ident3d.metrics import Kind


def columns(text: str) -> list[int]:
    """Return the numbers of a text such as 0,1,2."""
    return [int(part) for part in text.split(",")]


@click.command()
@options(
    option("--latents", required=True),
    option("--codes", type=FILE, required=True, help="Codes to score, a .npy file of shape (samples, codes)."),
    "--metrics",
    "--class-file",
    option("--discrete", type=numbers(int), show_default="integers of few values",
           help="Columns of discrete latents."),
    option("--periodic", multiple=True, metavar="COLUMN=PERIOD", type=assignment("3=2", float, int),
           help="A periodic latent, such as 3=2; repeatable."),
    option("--code-period", type=float, help="Period of the codes, if they are angles: adds circular correlation."),
    option("--block", "blocks", multiple=True, metavar="NAME=COLUMNS", type=assignment("content=0,1,2", columns),
           show_default="shared and private, of a folder of views",
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
    and why. docs/reference/metrics.md explains every score. If --latents is the all_latents.npy of a folder of views,
    its shared and private latents are the blocks, and one view of each z is scored.

    \b
      ident3d score --latents z.npy --codes h.npy                          two arrays of as many rows
      ident3d score --latents z.npy --codes h.npy --metrics mcc_pearson    one score
      ident3d score --latents z.npy --codes h.npy --block content=0,1,2    a block of latents as well
    """
    from ident3d.loaders.format.latents_source import read_npy
    from ident3d.loaders.pairs.view import one_of_each
    from ident3d.metrics.scoring import score as score_arrays

    z, h, of_class = read_npy(latents), read_npy(codes), None if class_file is None else read_npy(class_file)
    of_folder, instance = blocks_of_folder(latents)
    # A twin in the fitted half would tell what the codes of the held-out half do not hold.
    if instance is not None and len(instance) == len(z) == len(h) and (of_class is None or len(of_class) == len(z)):
        rows = one_of_each(instance)
        click.echo(f"Scored on one view of each z, {len(rows):,} of {len(z):,} images.", err=True)
        z, h, of_class = z[rows], h[rows], None if of_class is None else of_class[rows]
    report = score_arrays(
        z,
        h,
        kinds=kinds(z, discrete, periodic),
        classes=of_class,
        blocks=dict(blocks) or of_folder,
        latent_names=names,
        resamples=bootstrap,
        **given,
    )
    if plot is not None:
        report.plot(plot)
    show(report, as_json)


def blocks_of_folder(latents: Path) -> "tuple[dict[str, list[int]] | None, NDArray[np.int64] | None]":
    """Return the blocks of the folder whose table of latents this is, and the instance of each row, if it has any."""
    from ident3d.loaders.folders.folder import is_dataset
    from ident3d.loaders.format.description import read_description
    from ident3d.loaders.format.latents_source import blocks_of, computed_column, world_of
    from ident3d.loaders.format.latents_table import TABLE_FILE

    if latents.name != TABLE_FILE or not is_dataset(latents.parent):
        return None, None
    description = read_description(latents.parent)
    settings = description.settings
    names = world_of(settings).names
    blocks = {block: [names.index(name) for name in members] for block, members in blocks_of(settings).items()}
    return blocks or None, computed_column(settings, "instance", description.n)


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
