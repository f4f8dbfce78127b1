"""``ident3d graph``."""

from pathlib import Path

import click

from ident3d.commands.options import option, options
from ident3d.commands.output import print_warnings


@click.command()
@options(
    option("--scene", default="causal3dident"),
    "--factors",
    "--mesh",
    "--graph",
    "--do",
    option("--out", default=Path("graph.png")),
    option("--toml", is_flag=True, help="Print a graph as a TOML file to start from, and draw nothing."),
)
def graph(
    scene: str, factors: Path | None, meshes: tuple[tuple[str, str], ...], graph: Path | None,
    interventions: tuple[str, ...], out: Path, toml: bool,
) -> None:  # fmt: skip
    """Draw the causal graph of Causal-3DIdent, or a user's own, also over the factors of a user's own scene.

    The ending of --out names the picture's format.

    \b
      ident3d graph                                  the published graph, as graph.png
      ident3d graph --do spotlight_hue=0.5           after an intervention
      ident3d graph --toml > own.toml                the published graph as a file to start from
      ident3d graph --graph own.toml --out own.svg   a graph of your own
      ident3d graph --scene mine.py:Lamp --toml      of your own scene, every factor by itself
      ident3d graph --scene mine.py:Lamp --graph lamp.toml --do shape=cube
    """
    from ident3d.commands.recipe_options import own_scene_of
    from ident3d.errors import UserError
    from ident3d.latents.exact.causal import published_text
    from ident3d.latents.exact.names import assignments
    from ident3d.latents.own_graph import empty_text
    from ident3d.looking.causal_graph import graph as draw

    # A graph that is yet to be written may give a hidden cause its part.
    own = own_scene_of(scene, factors, meshes, graph, interventions, hidden=True)
    if own is None and scene != "causal3dident":
        raise UserError(f"The scene {scene} has no causal graph; causal3dident has one, and scenes of your own may.")
    if toml:
        click.echo(empty_text(own.factors) if own else published_text(), nl=False)
        return
    with print_warnings():
        if own:
            draw(out=out, scene=own)
        else:
            draw(graph, out=out, do=assignments(interventions))
    click.echo(f"Wrote {out}.")
