"""``ident3d pairs``."""

from pathlib import Path
from typing import Any

import click

from ident3d.commands.options import dataset_argument, is_given, option, options
from ident3d.commands.output import next_to, print_warnings, show
from ident3d.commands.parameters import number_or, numbers

# Further options of the rule nearest.
ASKS = ("kappa", "precision", "only", "same_class", "anchors", "search", "environments")


@click.command()
@dataset_argument
@options(
    "--rule",
    option("--cond", metavar="[normal|laplace|gennorm|uniform|vmf|rejected_normal]"),
    option("--sigma", type=number_or("none"), default="0.1"),
    option("--cond-p", "p", default=3.0),
    "--kappa",
    option("--lambda", "precision", type=numbers()),
    "--only",
    "--same-class",
    option("--anchors", default="rendered", help="Anchors: rendered images, or those nearest to a marginal draw."),
    "--search",
    "--environments",
    "--grid",
    "--rate",
    "--max-lag",
    "--seed",
    option("--pairs", "count", default=20_000, help="Number of pairs to draw."),
    option("--out", show_default="DIR-pairs.png next to the dataset"),
    "--json",
)
def pairs(
    directory: Path | str, rule: str | None, cond: str, sigma: float | None, only: tuple[str, ...], grid: str,
    rate: float | None, max_lag: int, count: int, out: Path | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Show what a pair rule does.

    For nearest, realised pairs are compared with the conditional asked for. Finite data changes the conditional: the
    positive is the nearest image there is, not the one that was drawn. Prints and plots |z̃ - z| latent by latent.
    Several conditionals, joined by commas, go to the factors of the latent space.

    For grid, time and view, prints and plots how many factors change, which and how far, and how many frames later the
    positive is, beside the first pairs. For views, also which latents are shared, and how private ones correlate.

    \b
      ident3d pairs DIR --cond laplace --sigma 0.2
      ident3d pairs DIR --rule grid --grid uni
      ident3d pairs DIR --rule time --max-lag 5
      ident3d pairs DIR                             rendered views
    """
    from ident3d.loaders.datasets.image_dataset import ImageDataset
    from ident3d.loaders.datasets.pair_changes import pair_changes, plot_changes
    from ident3d.loaders.datasets.pair_dataset import PairDataset
    from ident3d.loaders.datasets.pair_rules import usual_rule
    from ident3d.loaders.datasets.pair_widths import pairs, plot_realised
    from ident3d.loaders.pairs.rules import check_rule, options_of

    # One number is the precision of every latent.
    if len(given["precision"] or ()) == 1:
        (given["precision"],) = given["precision"]
    out = out or next_to(directory, "-pairs.png")
    name, given = next_to(directory, "").name, given | {"only": only or None}
    if rule is None:
        # What says how wide nearest pairs are asks for them.
        nearest = is_given("cond", "sigma", "p", *ASKS)
        rule = "nearest" if nearest else usual_rule(ImageDataset(directory))
    if rule != "nearest":
        asked = cond if is_given("cond") else None
        drawn = PairDataset(directory, asked, sigma, rule=rule, grid=grid, rate=rate, max_lag=max_lag, **given)
        found = pair_changes(drawn, count)
        plot_changes(drawn, found, out, f"{name}: {found.pairs:,} pairs among {found.images:,} images, {found.rule}")
        show(found, as_json, f"{found.table()}\n\nPicture: {out}", plot=out)
        return
    check_rule(rule, options_of(grid, rate, max_lag))
    with print_warnings():
        result = pairs(directory, cond, sigma, count=count, **given)
    # The title of the plot names what was asked for.
    width = "" if sigma is None else f" {sigma:g}"
    plot_realised(result, out, f"{name}: {result.pairs:,} pairs among {result.images:,} images, {cond}{width}")
    show(result, as_json, f"{result.table()}\n\nPlot: {out}", plot=out)
