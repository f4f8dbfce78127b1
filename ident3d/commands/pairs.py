"""``ident3d pairs``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import dataset_argument, next_to, option, options, print_warnings, show
from ident3d.commands.parameters import number_or


@click.command()
@dataset_argument
@options(
    "--cond",
    option("--sigma", type=number_or("none"), default="0.1"),
    option("--cond-p", "p", default=3.0),
    "--kappa",
    option("--lambda", "precision", type=float),
    "--only",
    "--same-class",
    option("--anchors", default="rendered", help="Anchors: rendered images, or those nearest to a marginal draw."),
    "--search",
    "--seed",
    option("--pairs", "count", default=20_000, help="Number of pairs to draw."),
    option("--out", show_default="DIR-pairs.png next to the dataset"),
    "--json",
)
def pairs(
    directory: Path | str, cond: str, sigma: float | None, only: tuple[str, ...], out: Path | None, as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Compare realised pairs with the conditional asked for.

    Finite data changes the conditional: the positive is the nearest image there is, not the one that was drawn. Prints
    and plots |z̃ - z| latent by latent. Several conditionals, joined by commas, go to the factors of the latent space.
    """
    from ident3d.loaders.datasets.pair_widths import pairs, plot_realised

    with print_warnings():
        result = pairs(directory, cond, sigma, only=only or None, **given)
    out = out or next_to(directory, "-pairs.png")
    # The title of the plot names what was asked for.
    width = "" if sigma is None else f" {sigma:g}"
    name = next_to(directory, "").name
    plot_realised(result, out, f"{name}: {result.pairs:,} pairs among {result.images:,} images, {cond}{width}")
    show(result, as_json, f"{result.table()}\n\nPlot: {out}", plot=out)
