"""``ident3d score``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import click

from ident3d.commands.options import json_option

if TYPE_CHECKING:
    from ident3d.metrics import Kind

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.option("--latents", type=FILE, required=True, help="True latents, a .npy file of shape (samples, latents).")
@click.option("--codes", type=FILE, required=True, help="Codes to score, a .npy file of shape (samples, codes).")
@click.option(
    "--metrics", default="default", show_default=True, help="default, all, or names of scores separated by commas."
)
@click.option("--classes", type=FILE, help="Class of each sample, a .npy file: adds the class accuracy.")
@click.option("--discrete", help="Columns of discrete latents, such as 0,3; by default integers of few values are.")
@click.option(
    "--periodic", multiple=True, metavar="COLUMN=PERIOD", help="A periodic latent, such as 3=2; may be repeated."
)
@click.option("--code-period", type=float, help="Period of the codes, if they are angles: adds circular correlation.")
@click.option(
    "--block", "blocks", multiple=True, metavar="NAME=COLUMNS", help="A block, such as content=0,1,2; may be repeated."
)
@click.option("--names", help="Names of the latents, separated by commas, for the table and the picture.")
@click.option("--bootstrap", default=0, metavar="RESAMPLES", help="Add intervals from this many resamples, say 1000.")
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--seed", default=0, show_default=True, help="Seed of the held-out split and of every draw.")
@json_option
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write the correlation matrix here.")
def score(
    latents: Path,
    codes: Path,
    metrics: str,
    classes: Path | None,
    discrete: str | None,
    periodic: tuple[str, ...],
    code_period: float | None,
    blocks: tuple[str, ...],
    names: str | None,
    bootstrap: int,
    level: float,
    seed: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Score codes against the true latents that they should identify.

    Prints a line per score with what it is identified up to, the values per latent, and which scores were left out
    and why. docs/reference/metrics.md explains every score.
    """
    from ident3d.metrics.scoring import score as score_arrays

    z = load(latents)
    report = score_arrays(
        z,
        load(codes),
        metrics if metrics in ("default", "all") else [name.strip() for name in metrics.split(",")],
        seed=seed,
        kinds=kinds(z, discrete, periodic),
        classes=None if classes is None else load(classes),
        blocks={name: columns(listed) for name, listed in map(named, blocks)} or None,
        code_period=code_period,
        latent_names=None if names is None else [name.strip() for name in names.split(",")],
        resamples=bootstrap,
        level=level,
    )
    if plot is not None:
        report.plot(plot)
    click.echo(report.to_json() if as_json else report.table())


def load(path: Path) -> Any:
    """The array of a .npy file; nothing in it is ever unpickled."""
    import numpy as np

    from ident3d.errors import UserError

    try:
        with path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, BadZipFile) as error:
        raise UserError(f"{path} is not a .npy file of numbers or strings: {error}") from error
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path} is an archive of arrays; give a .npy file with one array.")
    return array


def kinds(z: Any, discrete: str | None, periodic: tuple[str, ...]) -> "list[Kind] | None":
    """What was said about each latent, with the default for the others; None if nothing was said."""
    from ident3d.errors import UserError
    from ident3d.metrics.factors import kinds_of
    from ident3d.metrics.inputs import matrix

    if discrete is None and not periodic:
        return None
    found: list[Kind] = list(kinds_of(matrix(z, "latents z")))
    said: list[tuple[int, Kind]] = []
    if discrete is not None:
        found = ["continuous"] * len(found)
        said += [(column, "discrete") for column in columns(discrete)]
    for text in periodic:
        column, period = named(text)
        try:
            said.append((int(column), float(period)))
        except ValueError as error:
            raise UserError(f"--periodic takes COLUMN=PERIOD, such as 3=2; it was given {text!r}.") from error
    for index, kind in said:
        if not 0 <= index < len(found):
            raise UserError(f"There is no latent {index}; the {len(found)} latents are numbered from 0.")
        found[index] = kind
    return found


def named(text: str) -> tuple[str, str]:
    """NAME=VALUE as its two parts."""
    from ident3d.errors import UserError

    name, sign, value = text.partition("=")
    if not (name.strip() and sign and value.strip()):
        raise UserError(f"Expected NAME=VALUE, got {text!r}.")
    return name.strip(), value.strip()


def columns(text: str) -> list[int]:
    """0,1,2 as numbers."""
    from ident3d.errors import UserError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UserError(f"Columns are whole numbers separated by commas, such as 0,1,2; got {text!r}.") from error
