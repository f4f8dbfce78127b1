"""``ident3d pairs``."""

import json
from pathlib import Path

import click

from ident3d.commands.options import beside, dataset_argument, json_option, telling_warnings
from ident3d.errors import UserError


def width(_context: click.Context, _option: click.Parameter, text: str) -> float | None:
    """A width, or none."""
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise UserError(f"--sigma takes a number, or none, not {text!r}.") from None


@click.command()
@dataset_argument
@click.option("--cond", default="normal", show_default=True, help="normal, laplace, gennorm, uniform, vmf, …")
@click.option(
    "--sigma", default="0.1", show_default=True, callback=width, help="The width; none: uniform on all the space."
)
@click.option("--p", default=3.0, show_default=True, help="Exponent of gennorm.")
@click.option("--kappa", type=float, help="Concentration of vmf.")
@click.option("--precision", type=float, help="Λ of rejected_normal.")
@click.option("--only", multiple=True, metavar="LATENT", help="A latent or group that changes; repeatable.")
@click.option("--same-class", is_flag=True, help="Keep each pair within its class.")
@click.option("--anchors", default="rendered", show_default=True, help="rendered, or nearest to a marginal draw.")
@click.option("--search", default="exact", show_default=True, help="exact (k-d tree), flat (FAISS), ivf (the papers').")
@click.option("--seed", default=0, show_default=True, help="Seed of the pairs.")
@click.option("--count", default=20_000, show_default=True, help="How many pairs to draw.")
@click.option("--out", type=click.Path(path_type=Path), help="The plot; <dataset>-pairs.png beside it by default.")
@json_option
def pairs(
    directory: Path | str,
    cond: str,
    sigma: float | None,
    p: float,
    kappa: float | None,
    precision: float | None,
    only: tuple[str, ...],
    same_class: bool,
    anchors: str,
    search: str,
    seed: int,
    count: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare realised pairs with the conditional asked for.

    Finite data changes the conditional: the positive is the nearest image there is, not the one that was drawn. Prints
    and plots |z̃ - z| latent by latent.
    """
    from ident3d.loaders.datasets.pair_widths import pairs, plot_realised

    with telling_warnings():
        result = pairs(
            directory,
            cond,
            sigma,
            p=p,
            kappa=kappa,
            precision=precision,
            only=only or None,
            same_class=same_class,
            anchors=anchors,
            search=search,
            seed=seed,
            count=count,
        )
    out = out or beside(directory, "-pairs.png")
    name = beside(directory, "").name
    title = f"{name}: {result.pairs:,} pairs among {result.images:,} images, {cond}"
    title += "" if sigma is None else f" {sigma:g}"
    plot_realised(result, out, title)
    if as_json:
        click.echo(json.dumps(result.as_dict() | {"plot": str(out)}, indent=2))
    else:
        click.echo(f"{result.table()}\n\nPlot: {out}")
