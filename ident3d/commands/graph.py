"""``ident3d graph``."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--graph", "file", type=click.Path(path_type=Path, dir_okay=False), help="Draw your own graph, a TOML file."
)
@click.option(
    "--do", "interventions", multiple=True, metavar="NAME=VALUE", help="Hold a latent or the class; repeatable."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("graph.png"), show_default=True,
              help="The picture to write; the ending names the format.")  # fmt: skip
@click.option("--toml", is_flag=True, help="Print the published graph as a TOML file to start from, and draw nothing.")
def graph(file: Path | None, interventions: tuple[str, ...], out: Path, toml: bool) -> None:
    """Draw the causal graph of Causal-3DIdent, or your own."""
    from ident3d.latents.exact.causal import published_text
    from ident3d.latents.exact.names import assignments
    from ident3d.looking.causal_graph import graph as draw

    if toml:
        click.echo(published_text(), nl=False)
        return
    draw(out, file=file, do=assignments(interventions))
    click.echo(f"Wrote {out}.")
