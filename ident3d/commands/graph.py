"""``ident3d graph``."""

from pathlib import Path

import click

from ident3d.commands.options import option, options, print_warnings


@click.command()
@options(
    "--graph",
    "--do",
    option("--out", default=Path("graph.png")),
    option("--toml", is_flag=True, help="Print the published graph as a TOML file to start from, and draw nothing."),
)
def graph(graph: Path | None, interventions: tuple[str, ...], out: Path, toml: bool) -> None:
    """Draw the causal graph of Causal-3DIdent, or a user's own.

    The ending of --out names the picture's format.

    \b
      ident3d graph                                  the published graph, as graph.png
      ident3d graph --do spotlight_hue=0.5           after an intervention
      ident3d graph --toml > own.toml                the published graph as a file to start from
      ident3d graph --graph own.toml --out own.svg   a graph of your own
    """
    from ident3d.latents.exact.causal import published_text
    from ident3d.latents.exact.names import assignments
    from ident3d.looking.causal_graph import graph as draw

    if toml:
        click.echo(published_text(), nl=False)
        return
    with print_warnings():
        draw(graph, out=out, do=assignments(interventions))
    click.echo(f"Wrote {out}.")
